"""Writes ring plans as NCCL graph files: NCCL itself then runs the rings (``NCCL_GRAPH_FILE``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import gcd

from lxml import etree

from treadle.errors import ScheduleError
from treadle.formats.request import FileRequest, Written
from treadle.schedules.trees.forest import ForestSchedule, Tree

MAX_CHANNELS = 32
"""NCCL's MAXCHANNELS."""
_RING = 4
"""NCCL_TOPO_PATTERN_RING."""


def find_rings(schedule: ForestSchedule) -> dict[tuple[int, ...], int]:
    """Return the rings that a schedule's trees are part of, and the number of trees per root of each ring.

    Rings begin at rank 0 and go from root to leaf, as NCCL passes data; Treadle's in-trees use the same
    cables in the opposite direction. ScheduleError if a tree is not a path, or roots use different rings.
    """
    found: dict[tuple[int, ...], int] = {}
    for forest in schedule.forests:
        rings = [Counter[tuple[int, ...]]() for _ in range(forest.n_ranks)]
        for root in range(forest.n_ranks):
            for tree in forest.trees(root):
                rings[root][_ring(tree)] += tree.multiplicity
        back = {(*ring[:1], *ring[:0:-1]): units for ring, units in found.items()}
        if any(ring != rings[0] for ring in rings) or (found and rings[0] not in (found, back)):
            raise ScheduleError(
                "NCCL graph: the roots' trees follow different rings; solve with --algorithm ring"
            )
        found = dict(rings[0])
    return found


def chain_of(tree: Tree) -> list[int]:
    """Return the ranks from the root on, as long as each has exactly one child."""
    below: dict[int, list[int]] = {}
    for rank, parent in enumerate(tree.parent.tolist()):
        below.setdefault(parent, []).append(rank)
    order = [tree.root]
    while len(following := below.get(order[-1], [])) == 1:
        order += following
    return order


def _ring(tree: Tree) -> tuple[int, ...]:
    """Return the ring of a tree: a path has all edges of it but one."""
    order = chain_of(tree)
    if len(order) < len(tree.parent):
        raise ScheduleError(
            f"NCCL graph: the tree of root {tree.root} branches, and NCCL's rings do not; solve with "
            "--algorithm ring"
        )
    start = order.index(0)
    return (*order[start:], *order[:start])


def emit_nccl_graph(
    schedule: ForestSchedule, boxes: Sequence[Sequence[int]], algbw: Fraction
) -> tuple[str, ...]:
    """Write a ring plan of an allgather, reduce-scatter or allreduce: one file per box, one if all are equal.

    `boxes` has the ranks of each box in the order of their devices, and boxes in the order of NCCL's nodes;
    `algbw` (bytes/s) is for NCCL's cost model. Card i of a box is assumed to belong to device i. Devices and
    cards are hexadecimal, as later releases of NCCL read them (earlier ones read decimal; below 10 it is the
    same). ScheduleError if the schedule does not consist of rings, or a ring does not pass the boxes in the
    rising order in which NCCL joins them.
    """
    rings = find_rings(schedule)
    # Channels of NCCL carry equal shares, so a ring with more trees gets proportionally more channels.
    share = gcd(*rings.values())
    count = sum(units // share for units in rings.values())
    if count > MAX_CHANNELS:
        raise ScheduleError(f"NCCL graph: {count} channels, NCCL has at most {MAX_CHANNELS}")
    n = sum(map(len, boxes))
    chains = [_chains(ring, boxes) for ring, units in sorted(rings.items()) for _ in range(units // share)]
    speed = f"{float(algbw * (n - 1) / n / count) / 1e9:.6g}"
    files = [_graph_file([chain[box] for chain in chains], speed, len(boxes)) for box in range(len(boxes))]
    return tuple(files[:1] if len(set(files)) == 1 else files)


def _graph_file(chains: Sequence[tuple[int, ...]], speed: str, n_boxes: int) -> str:
    """Return the file of a box from the order of its devices in each channel."""
    graph = etree.Element(
        "graph",
        id="0",
        pattern=str(_RING),
        crossnic="1",
        nchannels=str(len(chains)),
        speedintra=speed,
        speedinter=speed,
        latencyinter="0",
        typeintra="NVL",
        typeinter="PXB",
        samechannels="0",
    )
    for chain in chains:
        channel = etree.SubElement(graph, "channel")
        ends = [("net", chain[0])], [("net", chain[-1])]
        enter, leave = ends if n_boxes > 1 else ([], [])
        for tag, device in (*enter, *(("gpu", device) for device in chain), *leave):
            etree.SubElement(channel, tag, dev=f"{device:x}")
    top = etree.Element("graphs", version="1")
    top.append(graph)
    return etree.tostring(top, pretty_print=True, encoding="unicode")


def _chains(ring: tuple[int, ...], boxes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the devices of each box in the order in which a ring passes them."""
    place = {rank: (box, device) for box, ranks in enumerate(boxes) for device, rank in enumerate(ranks)}
    # The first chain begins where the ring enters the first box.
    entries = [i for i, rank in enumerate(ring) if place[rank][0] == 0 and place[ring[i - 1]][0] != 0] or [0]
    passed = iter((*ring[entries[0] :], *ring[: entries[0]]))
    chains = []
    for number, box in enumerate(boxes):
        boxes_passed, devices = zip(*(place[next(passed)] for _ in box), strict=True)
        if set(boxes_passed) != {number}:
            raise ScheduleError(
                "NCCL graph: a ring must pass box by box in rising order: NCCL joins the boxes so by itself"
            )
        chains.append(devices)
    return chains


def write(request: FileRequest) -> Written:
    """Write a ring plan as one file, or as one per box if they differ."""
    plan, schedule = request.plan, request.entry.schedule
    if not isinstance(schedule, ForestSchedule) or plan.collective.kind.is_rooted:
        raise ScheduleError(
            "NCCL graph: NCCL takes rings of allgather, reduce-scatter or allreduce; solve with "
            "--algorithm ring"
        )
    texts = emit_nccl_graph(schedule, request.boxes, plan.algbw)
    suffixes = [""] if len(texts) == 1 else [f".box{box}" for box in range(len(texts))]
    return Written(tuple((suffix, text.encode()) for suffix, text in zip(suffixes, texts, strict=True)))
