"""Reads NCCL graph files as NCCL does.

Shares no code with the writer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from treadle.errors import FormatError
from treadle.formats.verdict import Terms, decoded
from treadle.formats.xml_elements import parse_plain_xml

MAX_CHANNELS = 32
"""NCCL's MAXCHANNELS."""
MAX_TEXT = 2**20
_RING = 4
"""NCCL_TOPO_PATTERN_RING."""


@dataclass(frozen=True)
class NcclGraph:
    """A graph file as NCCL reads it.

    Parameters
    ----------
    channels : tuple of tuple of int
        For each channel the GPUs of a box (their device numbers), in the order that data pass.
    cards : tuple of (int, int)
        For each channel the network cards by which data come in and go out; empty within one box.
    """

    channels: tuple[tuple[int, ...], ...]
    cards: tuple[tuple[int, int], ...]


def read(data: bytes, terms: Terms) -> NcclGraph:
    """Read one file."""
    return parse_nccl_graph(*decoded(data, terms, "NCCL graph"))


def parse_nccl_graph(text: str, source: str = "NCCL graph") -> NcclGraph:
    """Read the ring graph of a graph file, as NCCL would; FormatError if it is malformed or hostile."""
    top = parse_plain_xml(text, source, MAX_TEXT)
    graphs = [child for child in top if child.tag == "graph" and child.get("id") == "0"]
    if top.tag != "graphs" or len(graphs) != 1 or graphs[0].get("pattern") != str(_RING):
        raise FormatError(f"expected <graphs> with one <graph id=0 pattern={_RING}>", source=source)
    channels = [child for child in graphs[0] if child.tag == "channel"]
    if graphs[0].get("nchannels") != str(len(channels)) or not 1 <= len(channels) <= MAX_CHANNELS:
        raise FormatError(
            f"{len(channels)} channels do not fit nchannels or 1 to {MAX_CHANNELS}", source=source
        )
    chains, cards = [], []
    for channel in channels:
        ends: dict[str, list[int]] = {"gpu": [], "net": []}
        for child in (child for tag in ends for child in channel if child.tag == tag):
            value = child.get("dev", "")
            if not re.fullmatch(r"[0-9a-f]{1,8}", value):
                raise FormatError(f"dev={value[:20]!r}: expected a hexadecimal number", source=source)
            ends[str(child.tag)].append(int(value, 16))
        if not ends["gpu"] or len(set(ends["gpu"])) < len(ends["gpu"]) or len(ends["net"]) not in (0, 2):
            raise FormatError("a channel needs each gpu once, and no net or two", source=source)
        chains.append(tuple(ends["gpu"]))
        cards += [(ends["net"][0], ends["net"][1])] if ends["net"] else []
    if len({frozenset(chain) for chain in chains}) > 1 or len(cards) not in (0, len(chains)):
        raise FormatError("channels differ in their gpus, or some have no net", source=source)
    return NcclGraph(tuple(chains), tuple(cards))


def joined_rings(graphs: Sequence[NcclGraph]) -> list[tuple[int, ...]]:
    """The rings that NCCL makes of the graphs of its boxes: box after box, each along its channel.

    Ranks are counted box by box, in each by device; rings begin at rank 0. Data may leave a box by another
    card than they enter the next by (`crossnic`): whether the network joins the two is the fabric's affair.

    Raises
    ------
    FormatError
        If boxes differ in their numbers of channels.
    """
    if len({len(graph.channels) for graph in graphs}) != 1:
        raise FormatError("NCCL graph: the boxes differ in their numbers of channels")
    rings = []
    for number in range(len(graphs[0].channels)):
        order: list[int] = []
        for graph in graphs:
            chain = graph.channels[number]
            rank_of = {device: len(order) + rank for rank, device in enumerate(sorted(chain))}
            order += [rank_of[device] for device in chain]
        start = order.index(0)
        rings.append((*order[start:], *order[:start]))
    return rings
