"""CPU XML."""
