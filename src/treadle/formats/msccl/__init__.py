"""MSCCL XML."""
