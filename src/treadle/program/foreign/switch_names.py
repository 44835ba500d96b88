"""Switches of a fabric that the names in a third-party file mean.

A name that the fabric has means that switch. Any other switch of the file has neighbours, which its
counterpart must have as well: candidates without a link to any candidate of a neighbour are removed until
nothing changes, and the rest are tried in the order of the fabric. Different names mean different switches if
possible; otherwise several names may mean one, e.g. if a fabric models the switches of a box as one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from treadle.program.foreign.traffic import Way
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

_MOST_TRIALS = 10**5
_MOST_CANDIDATES = 10**6
"""Maximum number of names times nodes; with more, nothing is searched."""


_End = str | int
"""A name, or the node of a rank."""


@dataclass(frozen=True)
class SwitchNames:
    """The nodes of names."""

    nodes: Mapping[str, int]
    """Empty if no choice of nodes has all the links that the file uses."""
    others: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The other candidates of a name that could mean several nodes."""
    strangers: tuple[str, ...] = ()
    """Names that the fabric lacks, if the file names other switches as the fabric does."""


def find_switches(
    topology: Topology, collective: Collective, ways: Iterable[tuple[int, Way, int]]
) -> SwitchNames:
    """Return the nodes that the names on ways, given as (sender, names, receiver), stand for."""
    used = {way for way in ways if way[1]}
    names = sorted({name for _, way, _ in used for name in way})
    inner = set(range(topology.n_nodes)) - set(collective.ranks)
    known = {topology.node_names[node]: node for node in sorted(inner)}
    unknown = [name for name in names if name not in known]
    if not unknown:
        return SwitchNames({name: known[name] for name in names})
    strangers = tuple(unknown) if len(unknown) < len(names) else ()
    links = set(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    if len(unknown) * len(inner) > _MOST_CANDIDATES:
        return SwitchNames({}, strangers=strangers)
    # Neighbours on the ways of the file, in the direction of the data.
    pairs: set[tuple[_End, _End]] = set()
    for sender, way, receiver in used:
        ends: list[_End] = [collective.ranks[sender], *way, collective.ranks[receiver]]
        pairs.update(pairwise(ends))
    candidates: dict[str, set[int]] = {name: {known[name]} if name in known else set(inner) for name in names}
    _remove_unjoined(candidates, pairs, links)
    if not all(candidates.values()):
        return SwitchNames({}, strangers=strangers)
    for is_injective in (True, False):
        found = _first_choice(names, candidates, pairs, links, is_injective=is_injective)
        if found is not None:
            others = {
                name: tuple(sorted(nodes - {found[name]}))
                for name, nodes in candidates.items()
                if len(nodes) > 1
            }
            return SwitchNames(found, others, strangers)
    return SwitchNames({}, strangers=strangers)


def _remove_unjoined(
    candidates: dict[str, set[int]], pairs: set[tuple[_End, _End]], links: set[tuple[int, int]]
) -> None:
    """Keep the candidates that have a link with some candidate of each neighbour."""
    heads, tails = defaultdict[int, set[int]](set), defaultdict[int, set[int]](set)
    for tail, head in links:
        heads[tail].add(head)
        tails[head].add(tail)
    changing = True
    while changing:
        changing = False
        for near, far in pairs:
            for name, neighbour, reach in ((near, far, heads), (far, near, tails)):
                if isinstance(name, int):
                    continue
                allowed = {neighbour} if isinstance(neighbour, int) else candidates[neighbour]
                kept = {node for node in candidates[name] if reach[node] & allowed}
                changing |= len(kept) < len(candidates[name])
                candidates[name] = kept


def _first_choice(
    names: list[str],
    candidates: Mapping[str, set[int]],
    pairs: set[tuple[_End, _End]],
    links: set[tuple[int, int]],
    *,
    is_injective: bool,
) -> dict[str, int] | None:
    """Return the first choice in which all neighbours are joined; None without one, or after too long."""
    order = sorted(names, key=lambda name: (len(candidates[name]), name))
    chosen: dict[str, int] = {}
    trials = 0
    of_name = defaultdict[_End, list[tuple[_End, _End]]](list)
    for pair in pairs:
        for end in set(pair):
            of_name[end].append(pair)

    def node_of(end: _End) -> int | None:
        return end if isinstance(end, int) else chosen.get(end)

    def fits(name: str, node: int) -> bool:
        for near, far in of_name[name]:
            tail = node if near == name else node_of(near)
            head = node if far == name else node_of(far)
            if tail is not None and head is not None and (tail, head) not in links:
                return False
        return not is_injective or node not in chosen.values()

    tried = [iter(sorted(candidates[order[0]]))] if order else []
    while tried and trials < _MOST_TRIALS:
        name = order[len(tried) - 1]
        chosen.pop(name, None)
        trials += 1
        node = next((node for node in tried[-1] if fits(name, node)), None)
        if node is None:
            tried.pop()
            continue
        chosen[name] = node
        if len(tried) == len(order):
            return chosen
        tried.append(iter(sorted(candidates[order[len(tried)]])))
    return None
