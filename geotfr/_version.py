"""The version, alone in a module so that the build and the manifest read it without importing geotfr."""

__version__ = "0.1.0"
