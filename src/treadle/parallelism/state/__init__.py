"""States of tensors on a mesh, what operators accept, and the collectives between two states."""
