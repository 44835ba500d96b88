"""Routes to programs."""
