"""How fast this machine decodes: our model, and others of the same weights, in turn."""
