"""NCCL graph files."""
