"""Schedules of an all-to-all: in steps, and by routes."""
