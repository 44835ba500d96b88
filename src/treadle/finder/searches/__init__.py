"""Searches for graphs with few steps and little traffic, and the libraries of what they found."""
