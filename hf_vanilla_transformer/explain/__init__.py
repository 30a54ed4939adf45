"""Show what a trained model does, as pictures."""
