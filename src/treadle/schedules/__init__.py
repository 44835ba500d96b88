"""Schedules as values: collectives, forests, cost, verification, plan files."""
