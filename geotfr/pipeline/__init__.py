"""The flows: each command is one function here, from its sources to its files."""
