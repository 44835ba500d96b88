"""What only developers run."""
