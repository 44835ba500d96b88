"""Memory of GPUs that all ranks of a group reach, by who provides it."""
