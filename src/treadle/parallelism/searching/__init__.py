"""Searches over meshes and parallel plans."""
