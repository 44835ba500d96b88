"""Commands about fabrics as they are built."""
