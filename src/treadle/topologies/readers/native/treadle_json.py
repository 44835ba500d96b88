"""Treadle's JSON, version 1, as a format among others."""

from __future__ import annotations

from treadle.topologies.files import parse_topology_file
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the fabric that a file holds; FormatError if it is malformed."""
    del options  # such a file says everything
    return Imported(parse_topology_file(source.text, source=source.name), "json")
