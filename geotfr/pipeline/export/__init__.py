"""Images to patches: plan, strips, encoders, shards, resume."""
