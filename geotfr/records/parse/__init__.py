"""Parsing Examples and SequenceExamples without TensorFlow, with TensorFlow's meaning."""
