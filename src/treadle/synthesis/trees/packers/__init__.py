"""Packers of spanning trees, and what makes forests lower."""
