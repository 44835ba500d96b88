"""The table of schedulers, and the way from a problem to a verified schedule."""
