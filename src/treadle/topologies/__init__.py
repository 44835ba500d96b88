"""Fabrics as values: catalogue, files, transforms."""
