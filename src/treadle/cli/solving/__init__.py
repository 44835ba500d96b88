"""Commands that make schedules."""
