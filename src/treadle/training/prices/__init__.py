"""Costs of collectives on a fabric."""
