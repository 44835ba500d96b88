"""NCCL graphs, its own dumps too (``NCCL_GRAPH_DUMP_FILE``), as the rings of a box."""

from __future__ import annotations

from treadle.formats.judgement import Terms, decoded
from treadle.formats.nccl.reader import parse_nccl_graph
from treadle.program.foreign.traffic import NamedRings


def rings(data: bytes, terms: Terms) -> NamedRings:
    """Return the order in which each channel passes the GPUs of a box, by their places among its devices."""
    source = terms.source or "NCCL graph"
    graph = parse_nccl_graph(decoded(data, source), source=source)
    place = {device: number for number, device in enumerate(sorted(graph.channels[0]))}
    return NamedRings(
        tuple(tuple(place[device] for device in chain) for chain in graph.channels), bool(graph.cards)
    )
