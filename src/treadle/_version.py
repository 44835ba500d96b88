"""The version, from the installed package's metadata."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("treadle")
except PackageNotFoundError:
    __version__ = "0+source"
