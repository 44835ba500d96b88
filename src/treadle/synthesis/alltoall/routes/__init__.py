"""Routes of an all-to-all in layers free of deadlock."""
