"""Plans written in each format: what is asked for, what a format heeds, and what came of it."""
