"""Reading for training: patches by number, streams of records, and what carries them into other libraries."""
