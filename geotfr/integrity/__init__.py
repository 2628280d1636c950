"""Whether record files are what they should be: look into them, verify them, save what is whole."""
