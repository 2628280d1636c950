"""One module a command; each is imported when its command is called."""
