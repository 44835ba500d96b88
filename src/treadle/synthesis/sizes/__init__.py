"""Schedules for small sizes: few messages one after another, each with all that its receiver lacks."""
