"""Fabrics found and described."""
