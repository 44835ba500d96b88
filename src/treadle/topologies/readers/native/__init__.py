"""Treadle's own topology files."""

from __future__ import annotations

import re

from treadle.topologies.files import MAX_FILE_BYTES
from treadle.topologies.readers.reader import TopologyFormat

_HEAD = re.compile(r'\s*\{\s*"treadle"')

FORMATS = (
    TopologyFormat(
        name="json",
        title="Treadle's JSON",
        read="treadle.topologies.readers.native.treadle_json:read",
        options=frozenset(),
        detect=_HEAD.match,
        extensions=(".json",),
        max_bytes=MAX_FILE_BYTES,
        contents="everything",
    ),
)
