"""Compute graphs that know dimensions and nothing of their order (dissertation, section 5.3)."""
