"""Lowering of trees to programs."""
