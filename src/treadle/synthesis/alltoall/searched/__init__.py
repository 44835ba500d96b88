"""Routes of an all-to-all by local search, without a linear program: for more than a few thousand pairs."""
