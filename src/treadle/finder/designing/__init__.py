"""Candidates for the best fabric of a size and degree."""
