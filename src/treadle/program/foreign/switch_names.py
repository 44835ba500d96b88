"""Which switches of a fabric are meant by the names that a file of others gives to its own.

A name that the fabric has means that switch. Any other switch of the file stands between neighbours, and so
must its counterpart: candidates that lack a link to every candidate of a neighbour are struck out until
nothing changes, and what is left is tried in the fabric's order. Different names mean different switches if
that can be; else several names may mean one, as where a fabric has the switches of a box as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from treadle.program.foreign.traffic import Way
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

_MOST_TRIALS = 10**5
_MOST_CANDIDATES = 10**6
"""Names times nodes; more are not looked for."""


@dataclass(frozen=True)
class SwitchNames:
    """What names mean.

    Parameters
    ----------
    nodes : mapping of name to node
        Empty if no choice of nodes has all the links that the file uses.
    others : mapping of name to nodes
        Of a name that could mean several: those that were not taken.
    strangers : tuple of str
        Names that the fabric has not, in a file that names other switches as the fabric does.
    """

    nodes: Mapping[str, int]
    others: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    strangers: tuple[str, ...] = ()


def find_switches(
    topology: Topology, collective: Collective, ways: Iterable[tuple[int, Way, int]]
) -> SwitchNames:
    """The nodes that names stand for.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    ways : iterable of (sender, names, receiver)
    """
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
    pairs = _pairs(collective, used)
    candidates: dict[str, set[int]] = {name: {known[name]} if name in known else set(inner) for name in names}
    _strike_out(candidates, pairs, links)
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


_End = str | int
"""A name, or the node of a rank."""


def _pairs(collective: Collective, used: set[tuple[int, Way, int]]) -> set[tuple[_End, _End]]:
    """Neighbours on the file's ways, in the direction of the data."""
    found: set[tuple[_End, _End]] = set()
    for sender, way, receiver in used:
        ends: list[_End] = [collective.ranks[sender], *way, collective.ranks[receiver]]
        found.update(pairwise(ends))
    return found


def _strike_out(
    candidates: dict[str, set[int]], pairs: set[tuple[_End, _End]], links: set[tuple[int, int]]
) -> None:
    """Keep the candidates that have a link with some candidate of each neighbour."""
    heads: dict[int, set[int]] = {}
    tails: dict[int, set[int]] = {}
    for tail, head in links:
        heads.setdefault(tail, set()).add(head)
        tails.setdefault(head, set()).add(tail)
    changing = True
    while changing:
        changing = False
        for one, other in pairs:
            for name, neighbour, reach in ((one, other, heads), (other, one, tails)):
                if isinstance(name, int):
                    continue
                allowed = {neighbour} if isinstance(neighbour, int) else candidates[neighbour]
                kept = {node for node in candidates[name] if reach.get(node, set()) & allowed}
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
    """The first choice in which all neighbours are joined; None if there is none, or it takes too long."""
    order = sorted(names, key=lambda name: (len(candidates[name]), name))
    chosen: dict[str, int] = {}
    trials = 0
    of_name: dict[str, list[tuple[_End, _End]]] = {name: [] for name in names}
    for pair in pairs:
        for end in {end for end in pair if isinstance(end, str)}:
            of_name[end].append(pair)

    def fits(name: str, node: int) -> bool:
        for one, other in of_name[name]:
            tail = node if one == name else chosen.get(one) if isinstance(one, str) else one
            head = node if other == name else chosen.get(other) if isinstance(other, str) else other
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
