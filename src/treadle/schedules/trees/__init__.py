"""Schedules of spanning trees: forests, their cost and certificates."""
