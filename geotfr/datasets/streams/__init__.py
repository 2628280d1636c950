"""Streams of records: shuffled, repeated, mapped and batched, whole blocks at a time."""
