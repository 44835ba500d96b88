"""NCCL graph files from ring plans: rings that NCCL itself then runs (``NCCL_GRAPH_FILE``)."""

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
    """The rings that a schedule's trees are cut from, and how many trees of each root each has.

    Returns
    -------
    dict
        Rings begin at rank 0 and go from root to leaf, as NCCL passes data; a reduction of ours goes the
        other way round, over the same cables.

    Raises
    ------
    ScheduleError
        If some tree is no path, or the roots do not all use the same rings alike.
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
    """Ranks from the root on, as far as there is one child each."""
    below: dict[int, list[int]] = {}
    for rank, parent in enumerate(tree.parent.tolist()):
        below.setdefault(parent, []).append(rank)
    order = [tree.root]
    while len(following := below.get(order[-1], [])) == 1:
        order += following
    return order


def _ring(tree: Tree) -> tuple[int, ...]:
    """The cycle that a tree without branches lacks one edge of."""
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
    """Write a ring plan as NCCL graph files.

    Parameters
    ----------
    schedule : ForestSchedule
        Of an allgather, reduce-scatter or allreduce.
    boxes : sequence of sequences of int
        The ranks of each box in the order of their devices; boxes in the order of NCCL's nodes.
    algbw : Fraction
        Bytes/s, for NCCL's cost model.

    Returns
    -------
    tuple of str
        One text for each box; a single one if they are alike.

    Raises
    ------
    ScheduleError
        If the schedule is no set of rings, or a ring does not pass box by box in rising order: NCCL joins the
        boxes so by itself.

    Notes
    -----
    Card i of a box is taken to be device i's. Devices and cards are written in hexadecimal, as later releases
    read them (earlier ones read decimal; below 10 it is the same).
    """
    rings = find_rings(schedule)
    share = gcd(*rings.values())
    count = sum(units // share for units in rings.values())
    if count > MAX_CHANNELS:
        raise ScheduleError(f"NCCL graph: {count} channels, NCCL has at most {MAX_CHANNELS}")
    n = sum(map(len, boxes))
    chains = [_chains(ring, boxes) for ring, units in sorted(rings.items()) for _ in range(units // share)]
    speed = f"{float(algbw * (n - 1) / n / count) / 1e9:.6g}"
    texts = [_graph_text([chain[box] for chain in chains], speed, len(boxes)) for box in range(len(boxes))]
    return tuple(texts[:1] if len(set(texts)) == 1 else texts)


def _graph_text(chains: Sequence[tuple[int, ...]], speed: str, n_boxes: int) -> str:
    """The file of a box, with the order of its devices for each channel."""
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
        if n_boxes > 1:
            etree.SubElement(channel, "net", dev=f"{chain[0]:x}")
        for device in chain:
            etree.SubElement(channel, "gpu", dev=f"{device:x}")
        if n_boxes > 1:
            etree.SubElement(channel, "net", dev=f"{chain[-1]:x}")
    top = etree.Element("graphs", version="1")
    top.append(graph)
    return etree.tostring(top, pretty_print=True, encoding="unicode")


def _chains(ring: tuple[int, ...], boxes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """For each box, the devices in the order in which a ring passes it."""
    place = {rank: (box, device) for box, ranks in enumerate(boxes) for device, rank in enumerate(ranks)}
    # begin where the ring enters the first box
    entries = [i for i, rank in enumerate(ring) if place[rank][0] == 0 and place[ring[i - 1]][0] != 0] or [0]
    turned = iter((*ring[entries[0] :], *ring[: entries[0]]))
    chains = []
    for number, box in enumerate(boxes):
        part = [place[next(turned)] for _ in box]
        if {where for where, _ in part} != {number}:
            raise ScheduleError(
                "NCCL graph: a ring must pass box by box in rising order: NCCL joins the boxes so by itself"
            )
        chains.append(tuple(device for _, device in part))
    return chains


def write(request: FileRequest) -> Written:
    """A ring plan as one file, or one for each box where they differ."""
    plan, schedule = request.plan, request.entry.schedule
    if not isinstance(schedule, ForestSchedule) or plan.collective.kind.is_rooted:
        raise ScheduleError(
            "NCCL graph: NCCL takes rings of allgather, reduce-scatter or allreduce; solve with "
            "--algorithm ring"
        )
    texts = emit_nccl_graph(schedule, request.boxes, plan.algbw)
    suffixes = [""] if len(texts) == 1 else [f".box{box}" for box in range(len(texts))]
    return Written(tuple((suffix, text.encode()) for suffix, text in zip(suffixes, texts, strict=True)))
