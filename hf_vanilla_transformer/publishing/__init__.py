"""Sharing a model on the Hub: its check, its card, its upload."""
