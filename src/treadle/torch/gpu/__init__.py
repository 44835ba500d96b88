"""Collectives on tensors of GPUs."""
