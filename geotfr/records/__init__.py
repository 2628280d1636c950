"""Bytes: the TFRecord container, its compression, and the Example messages inside."""
