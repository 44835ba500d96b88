"""Cables: which links share one, and what each is called, also where several join the same two nodes.

A cable is a link and the one back, of equal bandwidth, or a link without such a partner. Cabling lists,
random failures and plans for failures count by this one definition.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from treadle.topologies.topology import Topology


class NamedCable(NamedTuple):
    """A cable that joins two nodes.

    Parameters
    ----------
    name : str
        As `with_failed_links` takes it: ``one--other`` of two links, ``tail->head`` of one; ``#3`` behind it
        distinguishes it from others between the same nodes.
    links : tuple of int
        Its one or two links, the first in the order of the fabric before the one back.
    """

    name: str
    links: tuple[int, ...]


def partners(ends: Iterable[tuple[int, int, int]]) -> list[int]:
    """Return, for each link given by tail, head and bandwidth, the one back in the same cable, or -1.

    In order of links. A link's partner depends on the links between its two nodes only.

    Examples
    --------
    >>> partners([(0, 1, 5), (0, 1, 5), (1, 0, 5), (1, 0, 7), (0, 0, 5)])
    [2, -1, 0, -1, -1]
    """
    waiting: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    found: list[int] = []
    for link, (tail, head, bandwidth) in enumerate(ends):
        opposite = waiting[head, tail, bandwidth]
        if tail != head and opposite:
            found.append(opposite.pop(0))
            found[found[link]] = link
        else:
            found.append(-1)
            waiting[tail, head, bandwidth].append(link)
    return found


def named_cables(topology: Topology) -> tuple[NamedCable, ...]:
    """Return all cables between two nodes, in the order of their first links.

    Self-loops are left out: a cable from a node to itself carries nothing, so nothing is lost with it.

    Examples
    --------
    >>> from treadle.topologies import parse
    >>> [cable.name for cable in named_cables(parse("path(3)"))]
    ['n0--n1', 'n1--n2']
    >>> [cable.name for cable in named_cables(parse("uni_ring(2, 2)"))]
    ['n0--n1#0', 'n0--n1#1']
    """
    tails, heads = topology.tails.tolist(), topology.heads.tolist()
    partner = partners(zip(tails, heads, topology.bandwidths.tolist(), strict=True))
    names, of_ends = topology.node_names, Counter(zip(tails, heads, strict=True))
    onward: Counter[tuple[int, int]] = Counter()
    two_way: Counter[tuple[int, int]] = Counter()
    found = []
    for link, (tail, head) in enumerate(zip(tails, heads, strict=True)):
        number = onward[tail, head]
        onward[tail, head] += 1
        if tail == head or 0 <= partner[link] < link:
            continue
        if partner[link] < 0:
            name, is_only = f"{names[tail]}->{names[head]}", of_ends[tail, head] == 1
            links: tuple[int, ...] = (link,)
        else:
            pair = (tail, head) if tail < head else (head, tail)
            name, links = f"{names[pair[0]]}--{names[pair[1]]}", (link, partner[link])
            is_only = of_ends[tail, head] == of_ends[head, tail] == 1
            number = two_way[pair]
            two_way[pair] += 1
        found.append(NamedCable(name if is_only else f"{name}#{number}", links))
    return tuple(found)
