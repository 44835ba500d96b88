"""Verification of step schedules, chunk by chunk."""
