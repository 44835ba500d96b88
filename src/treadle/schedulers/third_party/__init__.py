"""Third-party schedules, placed on a fabric."""
