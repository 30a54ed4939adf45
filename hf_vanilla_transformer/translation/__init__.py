"""Translate text with a trained model."""
