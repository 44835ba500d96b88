"""Fabrics of public threads: boxes of GPUs with PCIe switches and few network cards."""

from __future__ import annotations

GB = 10**9
