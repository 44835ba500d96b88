"""Verification of the steps of an all-to-all, chunk by chunk."""
