"""Plans run, simulated and measured."""
