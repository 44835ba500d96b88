"""A plan: how each operator and tensor of a model lies on a mesh, as a value and as a file."""
