"""Files that describe one box, whole: GPUs, what joins them, NICs."""

from __future__ import annotations

from treadle.topologies.readers.reader import TopologyFormat

FORMATS: tuple[TopologyFormat, ...] = ()
