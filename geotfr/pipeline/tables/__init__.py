"""Tables and samples to records, and back."""
