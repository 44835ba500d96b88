"""Schedules in synchronous steps, and what they cost."""
