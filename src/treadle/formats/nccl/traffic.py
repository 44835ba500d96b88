"""NCCL graphs, its own dumps too (``NCCL_GRAPH_DUMP_FILE``), as the rings of a box."""

from __future__ import annotations

from treadle.formats.nccl.reader import read
from treadle.formats.verdict import Terms
from treadle.program.foreign.traffic import NamedRings


def rings(data: bytes, terms: Terms) -> NamedRings:
    """Return the order in which each channel passes the GPUs of a box, by their places among its devices."""
    graph = read(data, terms)
    place = {device: number for number, device in enumerate(sorted(graph.channels[0]))}
    return NamedRings(
        tuple(tuple(place[device] for device in chain) for chain in graph.channels), bool(graph.cards)
    )
