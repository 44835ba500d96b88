"""How a model is split over a mesh: compute graphs, tensor states, and the search."""
