"""Parallel text: reading, batching, collating, and the corpus that the package carries."""
