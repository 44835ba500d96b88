"""Lowering of routes to programs."""
