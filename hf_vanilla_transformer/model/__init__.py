"""The core: everything that travels with a checkpoint."""
