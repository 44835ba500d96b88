"""Verification of explicit trees, one by one."""
