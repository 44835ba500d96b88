"""MSCCL++ execution plans."""
