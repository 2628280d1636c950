"""Sets between a folder and an object store."""
