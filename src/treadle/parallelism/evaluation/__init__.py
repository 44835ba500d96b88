"""Cost of a plan, and whether it computes what the model does, by code independent of the search."""
