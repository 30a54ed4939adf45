"""Commands of the command line: their options, and what they do with them."""
