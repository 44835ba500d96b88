"""Carries out TE-CCL's schedules on sets of holders: who sends must hold, and in the end all demands are met.

Shares no code with what makes programs of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from treadle.formats.teccl.reader import TecclDemand, TecclFile, read
from treadle.formats.verdict import Check, Terms, Verdict, listed

MAX_VIOLATIONS = 1000
_TOLERANCE = Fraction(1, 10**4)
"""Of a volume: solvers round."""


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Follow a schedule; FormatError if it is malformed or hostile."""
    file = read(files[0], terms)
    faults = list(_exchanged(file) if file.is_alltoall else _gathered(file))
    hops = len(file.flows) or sum(len(path) for demand in file.demands for path in demand.paths)
    kind = "alltoall" if file.is_alltoall else "allgather"
    found = listed(faults, MAX_VIOLATIONS)
    return Verdict(Check.EXECUTED, found, (("hop", hops),), len(file.gpus), kind)


def _gathered(file: TecclFile) -> Iterator[str]:
    """What is wrong with an allgather."""
    holders: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    chunks: dict[int, set[int]] = defaultdict(set)
    for flow in sorted(file.flows, key=lambda flow: flow.hop.epoch):
        chunks[flow.source].add(flow.chunk)
        since = holders[flow.source, flow.chunk]
        since.setdefault(flow.source, -1)
        hop = flow.hop
        name = f"GPU {hop.tail} sends chunk {flow.chunk} of {flow.source}"
        if since.get(hop.tail, hop.epoch) >= hop.epoch:
            yield f"{name} in epoch {hop.epoch} without having it"
        if hop.tail == hop.head:
            yield f"{name} to itself"
        since[hop.head] = min(since.get(hop.head, hop.epoch), hop.epoch)
    counts = {len(chunks[gpu]) for gpu in file.gpus}
    if len(counts) != 1:
        yield f"GPUs have {min(counts)} to {max(counts)} chunks, expected as many each"
    for gpu in file.gpus:
        for chunk in sorted(chunks[gpu]):
            missing = [other for other in file.gpus if other not in holders[gpu, chunk]]
            if missing:
                yield f"chunk {chunk} of GPU {gpu} never comes to {len(missing)} GPUs, first {missing[0]}"


def _exchanged(file: TecclFile) -> Iterator[str]:
    """What is wrong with an all-to-all."""
    asked: dict[tuple[int, int], int] = defaultdict(int)
    for demand in file.demands:
        asked[demand.source, demand.target] += 1
        yield from _paths(demand)
    counts = {asked[one, other] for one in file.gpus for other in file.gpus if one != other}
    if len(counts) != 1:
        yield f"pairs of GPUs have {min(counts)} to {max(counts)} chunks, expected as many each"
    for one, other in asked:
        if one == other:
            yield f"GPU {one} has a demand to itself"


def _paths(demand: TecclDemand) -> Iterator[str]:
    name = f"chunk {demand.chunk} of GPU {demand.source} to {demand.target}"
    total = Fraction(0)
    for path in demand.paths:
        total += path[0].volume
        if (path[0].tail, path[-1].head) != (demand.source, demand.target):
            yield f"{name}: a path leads from {path[0].tail} to {path[-1].head}"
        for one, other in pairwise(path):
            is_more = abs(one.volume - other.volume) > _TOLERANCE
            if one.head != other.tail or one.epoch >= other.epoch or is_more:
                yield f"{name}: {other.tail}->{other.head} in epoch {other.epoch} does not follow on"
                break
    if abs(total - 1) > _TOLERANCE * max(1, len(demand.paths)):
        yield f"{name}: its paths carry {float(total):g} of it"
