"""Parallel plans explained and compared."""
