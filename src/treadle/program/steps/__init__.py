"""Steps to programs."""
