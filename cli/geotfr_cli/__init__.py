"""The command line of geotfr."""
