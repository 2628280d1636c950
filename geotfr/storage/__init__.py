"""Outputs that take their final name only when they are whole."""

from geotfr.storage.atomic import AtomicFile, atomic_output, atomic_path
from geotfr.storage.output_set import OutputSet

__all__ = ["AtomicFile", "OutputSet", "atomic_output", "atomic_path"]
