"""Forests to programs."""
