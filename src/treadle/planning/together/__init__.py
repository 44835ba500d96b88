"""Several collectives at once: jobs of different kinds, sizes and weights."""
