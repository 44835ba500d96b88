"""Whole graphs cut into parts, and equal ones that follow each other folded into one that is repeated."""
