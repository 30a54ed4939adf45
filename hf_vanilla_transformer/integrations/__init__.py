"""Subclasses of classes of other libraries, and registration with them."""
