"""Verification of the routes of an all-to-all: paths, loads, freedom from deadlock."""
