"""Executes TE-CCL's schedules on sets of holders: a sender must hold the chunk, and all demands must be met.

Shares no code with the conversion to programs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, permutations

from treadle.formats.teccl.reader import TecclDemand, TecclFile, read
from treadle.formats.verdict import Check, Terms, Verdict, listed

MAX_VIOLATIONS = 1000
_TOLERANCE = Fraction(1, 10**4)
"""Allowed error of a volume: solvers round."""


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Execute a schedule; FormatError if it is malformed or hostile."""
    file = read(files[0], terms)
    kind, faults = ("alltoall", _alltoall_faults) if file.is_alltoall else ("allgather", _allgather_faults)
    hops = len(file.flows) or sum(len(path) for demand in file.demands for path in demand.paths)
    found = listed(list(faults(file)), MAX_VIOLATIONS)
    return Verdict(Check.EXECUTED, found, (("hop", hops),), len(file.gpus), kind)


def _allgather_faults(file: TecclFile) -> Iterator[str]:
    holders: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    chunks: dict[int, set[int]] = defaultdict(set)
    for flow in sorted(file.flows, key=lambda flow: flow.hop.epoch):
        chunks[flow.source].add(flow.chunk)
        # Epoch in which each GPU received the chunk; its source holds it from the beginning.
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


def _alltoall_faults(file: TecclFile) -> Iterator[str]:
    for demand in file.demands:
        yield from _path_faults(demand)
    demands = Counter((demand.source, demand.target) for demand in file.demands)
    counts = {demands[pair] for pair in permutations(file.gpus, 2)}
    if len(counts) != 1:
        yield f"pairs of GPUs have {min(counts)} to {max(counts)} chunks, expected as many each"
    yield from (f"GPU {one} has a demand to itself" for one, other in demands if one == other)


def _path_faults(demand: TecclDemand) -> Iterator[str]:
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
