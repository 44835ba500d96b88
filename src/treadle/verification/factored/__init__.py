"""Verification of factored forests without expanding them."""
