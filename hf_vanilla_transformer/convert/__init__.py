"""Models in the formats of other projects, one file for each."""
