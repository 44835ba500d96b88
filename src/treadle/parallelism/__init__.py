"""Sharding of a model over a mesh: compute graphs, tensor states, and the search."""
