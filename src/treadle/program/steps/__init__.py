"""Lowering of steps to programs."""
