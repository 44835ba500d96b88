"""Makers of the finder's data files."""
