"""Files and folders on disk: atomic writing, finding and loading models, their weights."""
