"""Rings of a box from an NCCL graph file or NCCL's own dump (``NCCL_GRAPH_DUMP_FILE``)."""

from __future__ import annotations

from treadle.formats.nccl.reader import read
from treadle.formats.verdict import Terms
from treadle.program.foreign.traffic import NamedRings


def rings(data: bytes, terms: Terms) -> NamedRings:
    """Return the order in which each channel passes the GPUs of a box, numbered by rising device."""
    graph = read(data, terms)
    position = {device: number for number, device in enumerate(sorted(graph.channels[0]))}
    return NamedRings(
        tuple(tuple(position[device] for device in chain) for chain in graph.channels), bool(graph.cards)
    )
