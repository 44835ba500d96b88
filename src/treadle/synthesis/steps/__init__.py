"""Generators of step schedules."""
