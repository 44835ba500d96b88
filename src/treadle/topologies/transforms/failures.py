"""A fabric without what failed, named as people type it: links, nodes and patterns of both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

import numpy as np

from treadle.arrays import BoolArray
from treadle.errors import TopologyError
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import (
    has_node,
    is_link_name,
    link_readings,
    with_failed_links,
    with_failed_nodes,
)

_PATTERN = frozenset("*?[")


def without_failures(topology: Topology, failed: Sequence[str] | str) -> Topology:
    """The fabric without links and nodes that failed.

    Parameters
    ----------
    topology : Topology
    failed : str or sequence of str
        Each is a name or several with commas between: ``one--other`` for a link in both directions,
        ``tail->head`` for one, ``one--other#2`` for one cable of several, else a node. ``*``, ``?`` and
        ``[...]`` stand for any characters, as in a shell (``leaf3--spine*``, ``box0.*``); what a name means
        as it stands wins.

    Returns
    -------
    Topology
        Named by an expression of `with_failed_links` and `with_failed_nodes`, which `parse` takes where it
        takes the fabric's own name.

    Raises
    ------
    TopologyError
        For a name or pattern that nothing has, or if no compute node is left.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> without_failures(ring(4), "n0--n1,n2->n*")
    <Topology with_failed_links(ring(4), "n0--n1", "n2->n1", "n2->n3"): 4 compute, 0 switches, 4 links>
    """
    links, nodes = named_failures(topology, failed)
    return without_links_and_nodes(topology, links, nodes)


def without_links_and_nodes(topology: Topology, links: Sequence[str], nodes: Sequence[str]) -> Topology:
    """The fabric without links and nodes of exact names; both named as in the whole fabric.

    A switch that leads nowhere without the links is gone with them, whether it is among the nodes or not.
    """
    rest = with_failed_links(topology, *links) if links else topology
    names = [name for name in nodes if has_node(rest, name) or not has_node(topology, name)]
    return with_failed_nodes(rest, *names) if names else rest


def named_failures(
    topology: Topology, failed: Sequence[str] | str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Exact names of the links, and of the nodes, that `without_failures` is to take out; each once."""
    links: dict[str, None] = {}
    nodes: dict[str, None] = {}
    for text in [failed] if isinstance(failed, str) else failed:
        # a name that has commas itself is not a list
        is_single = has_node(topology, text) or is_link_name(topology, text)
        for name in [text] if is_single else text.split(","):
            found, are_links = _meant(topology, name.strip())
            (links if are_links else nodes).update(dict.fromkeys(found))
    return tuple(links), tuple(nodes)


def named_links(topology: Topology, typed: Sequence[str]) -> tuple[str, ...]:
    """Exact names of the links that names and patterns mean; each once. A name without a pattern stays.

    Raises
    ------
    TopologyError
        If a pattern, or a list with commas, is of nothing, or of nodes.
    """
    return _named(topology, typed, of_links=True)


def named_nodes(topology: Topology, typed: Sequence[str]) -> tuple[str, ...]:
    """Same as `named_links`, for nodes."""
    return _named(topology, typed, of_links=False)


def _named(topology: Topology, typed: Sequence[str], *, of_links: bool) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for text in typed:
        if "," not in text and not _PATTERN & set(text):
            names[text] = None  # an unknown name is reported when it is taken out
            continue
        links, nodes = named_failures(topology, text)
        wanted, others = (links, nodes) if of_links else (nodes, links)
        if others:
            kinds = "nodes, expected links" if of_links else "links, expected nodes"
            raise TopologyError(f"{topology.name}: {text[:60]!r} names {kinds}")
        names.update(dict.fromkeys(wanted))
    return tuple(names)


def _meant(topology: Topology, name: str) -> tuple[list[str], bool]:
    """Return the exact names that one stands for, and whether they are of links."""
    if has_node(topology, name):
        return [name], False
    if is_link_name(topology, name):
        return [name], True
    if not _PATTERN & set(name):
        if any(link_readings(name)):
            with_failed_links(topology, name)  # raises: an end is unknown, or there is no such link
        with_failed_nodes(topology, name)  # raises: no node has the name
    for arrow, tail, head in link_readings(name):
        tails, heads = _matching(topology, tail), _matching(topology, head)
        if tails.any() and heads.any():
            return _links_between(topology, name, tails, heads, arrow), True
    chosen = np.flatnonzero(_matching(topology, name))
    if not chosen.size:
        raise TopologyError(f"{topology.name}: no node and no link is called as {name[:60]!r}")
    return [topology.node_names[node] for node in chosen.tolist()], False


def _links_between(
    topology: Topology, name: str, tails: BoolArray, heads: BoolArray, arrow: str
) -> list[str]:
    """Exact names of the links from the one side to the other, the ends in the order that was typed."""
    onward = tails[topology.tails] & heads[topology.heads]
    back = heads[topology.tails] & tails[topology.heads] & (arrow == "--")
    ends = zip(topology.tails.tolist(), topology.heads.tolist(), onward.tolist(), back.tolist(), strict=True)
    pairs: dict[tuple[int, int], None] = {}
    for tail, head, is_onward, is_back in ends:
        pair = (tail, head) if is_onward else (head, tail)
        if (is_onward or is_back) and (arrow == "->" or pair[::-1] not in pairs):
            pairs[pair] = None
    if not pairs:
        raise TopologyError(f"{topology.name}: there is no link {name[:80]!r}")
    names = topology.node_names
    return [f"{names[tail]}{arrow}{names[head]}" for tail, head in pairs]


def _matching(topology: Topology, pattern: str) -> BoolArray:
    """Return the mask of the nodes whose names a pattern fits."""
    fits = re.compile(translate(pattern)).match
    return np.fromiter((fits(name) is not None for name in topology.node_names), np.bool_, topology.n_nodes)
