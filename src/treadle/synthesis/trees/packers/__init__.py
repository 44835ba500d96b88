"""Packers of spanning trees, and methods to reduce the height of forests."""
