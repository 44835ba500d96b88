"""The public Python API: solve, bound, verify, compare."""
