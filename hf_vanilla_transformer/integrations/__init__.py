"""Subclasses of and registration with other libraries."""
