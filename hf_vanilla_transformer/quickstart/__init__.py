"""A first run on the Chinese-English corpus that the package carries."""
