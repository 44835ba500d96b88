"""Routes of an all-to-all judged: paths, loads, layers free of deadlock."""
