"""A first run on the Chinese-English corpus of the package."""
