"""Executors of programs."""
