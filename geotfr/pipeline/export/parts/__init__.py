"""Parts of an export: cut, staged anywhere, spread over an engine, and made one set."""
