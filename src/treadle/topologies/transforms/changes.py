"""A fabric out of a fabric: failures, subsets, balanced bandwidths."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of, sums_of
from treadle.errors import TopologyError
from treadle.topologies.cables import partners
from treadle.topologies.limits import check_count, check_size
from treadle.topologies.naming import expression, label
from treadle.topologies.topology import LINK_COLUMNS, MAX_BANDWIDTH, Topology, node_columns
from treadle.topologies.transforms.balance import balanced_capacities

_NUMBERED = re.compile(r"(.+)#([0-9]{1,9})", re.DOTALL)
"""A link's name with the number of one of several."""
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def with_failed_links(topology: Topology, *names: str) -> Topology:
    """The fabric without some links.

    Parameters
    ----------
    topology : Topology
    *names : str
        ``tail->head`` for one direction, ``one--other`` for both; parallel links fail together. A number
        from 0 behind it means one of several: ``one--other#2`` the third bidirectional cable between the two,
        ``tail->head#2`` the third link that way, in the order of the fabric's links.

    Returns
    -------
    Topology
        Compute nodes stay, even without links; switches that lead nowhere go (see Notes).

    Raises
    ------
    TopologyError
        If a name has neither form, a node is unknown or there is no such link.

    Notes
    -----
    A switch leads nowhere if it has no link, or a single neighbour with which it exchanges equal bandwidths:
    no shortest route uses it, and the rest keeps its balance. Such switches go one after another.

    A link that fails in one direction leaves its ends unbalanced; `trimmed` balances them.

    Examples
    --------
    >>> from treadle.topologies.catalogue.platforms import dgx_a100
    >>> with_failed_links(dgx_a100(1), "box0.gpu0--box0.nvswitch").n_links
    14
    >>> from treadle.topologies import parse
    >>> with_failed_links(parse("with_parallel_links(ring(4), 3)"), "n0--n1#2").n_links
    22
    """
    keep = np.ones(topology.n_links, dtype=np.bool_)
    for name in names:
        keep &= ~_named_links(topology, name)
    name = label("with_failed_links", topology.name, *map(_written, names))
    return _restricted(topology, name, links=keep)


def _written(argument: int | str) -> str:
    """Return an argument as `parse` writes it: text in double quotes."""
    text = repr(argument)
    return text if '"' in text or "\\" in text else text.replace("'", '"')


def _named_links(topology: Topology, name: str) -> BoolArray:
    """Return the mask of the links that `name` means."""
    if (found := _parse_link(topology, name)) is None:
        for arrow in ("->", "--"):
            if arrow in name:
                for end in name.split(arrow, 1):
                    _node(topology, end)
        raise TopologyError(f"{topology.name}: link {name!r}: expected 'tail->head' or 'one--other'")
    one, other, is_both, number = found
    chosen: BoolArray = (topology.tails == one) & (topology.heads == other)
    if is_both:
        chosen |= (topology.tails == other) & (topology.heads == one)
    if not chosen.any():
        raise TopologyError(f"{topology.name}: there is no link {name!r}")
    if number is None:
        return chosen
    # one of the cables of both directions between two nodes, or of the links of one direction
    links = np.flatnonzero(chosen)
    choices, kind = [[link] for link in links], "links that way"
    if is_both:
        arrays = (topology.tails, topology.heads, topology.bandwidths)
        partner = partners(zip(*(array[links].tolist() for array in arrays), strict=True))
        choices = [[links[place], links[back]] for place, back in enumerate(partner) if back > place]
        kind = "cables of both directions"
    if number >= len(choices):
        numbers = f"{kind} are numbered from 0, {len(choices)} in all"
        raise TopologyError(f"{topology.name}: there is no link {name!r}: {numbers}")
    return mask_of(topology.n_links, choices[number])


def link_readings(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield every reading of a name as an arrow and two ends, since names of nodes may contain arrows."""
    for arrow in ("->", "--"):
        for match in re.finditer(f"(?={arrow})", name):
            yield arrow, name[: match.start()], name[match.start() + 2 :]


def _parse_link(topology: Topology, name: str) -> tuple[int, int, bool, int | None] | None:
    """Return the ends of a link by its name, whether both directions are meant, and its number if given."""
    numbered = _NUMBERED.fullmatch(name)
    readings = [(name, None), *([(numbered[1], int(numbered[2]))] if numbered else [])]
    for text, number in readings:
        for arrow, one, other in link_readings(text):
            if has_node(topology, one) and has_node(topology, other):
                return topology.node_index(one), topology.node_index(other), arrow == "--", number
    return None


def is_link_name(topology: Topology, name: str) -> bool:
    """Whether a name is of two known nodes with an arrow between, perhaps with a number behind."""
    return _parse_link(topology, name) is not None


def has_node(topology: Topology, name: str) -> bool:
    """Whether a node is called `name`; constant time, unlike a search in `node_names`."""
    try:
        topology.node_index(name)
    except TopologyError:
        return False
    return True


def _node(topology: Topology, name: str) -> int:
    """Return the index of the node called `name`, or an error with the likeliest names."""
    if has_node(topology, name):
        return topology.node_index(name)
    names = topology.node_names[:5000]
    kinds = {_kind(one): one for one in reversed(names)}
    meant = difflib.get_close_matches(_kind(name), kinds, n=1)  # a GPU is never meant by a switch
    close = difflib.get_close_matches(name, [one for one in names if _kind(one) in meant], n=2)
    examples = f"; its nodes have names such as {', '.join([*kinds.values()][:4])}"
    hint = _links_of_nic(topology, name) or examples
    if close:
        hint = f"; did you mean {' or '.join(map(repr, close))}?"
    raise TopologyError(f"{topology.name}: no node is called {name!r}{hint}")


def _kind(name: str) -> str:
    """Return the kind of node in a name: ``gpu`` for ``box0.gpu3``."""
    return name.rpartition(".")[2].rstrip("0123456789")


def _links_of_nic(topology: Topology, name: str) -> str:
    """Name the link that models a NIC of a fabric without NIC nodes; "" for any other name."""
    box, _, own = name.rpartition(".")
    gpu = f"{box}.{own.replace('nic', 'gpu', 1)}"
    if _kind(name) != "nic" or not has_node(topology, gpu):
        return ""
    heads = topology.heads[topology.tails == topology.node_index(gpu)].tolist()
    outside = (topology.node_names[v] for v in heads if not topology.node_names[v].startswith(f"{box}."))
    link = next((f"{gpu}--{node}" for node in outside), "")
    return f"; its NICs are links: {link!r}" if link else ""


def with_failed_nodes(topology: Topology, *names: str) -> Topology:
    """The fabric without some nodes and their links.

    Parameters
    ----------
    topology : Topology
    *names : str
        Switches, NICs or compute nodes. The compute node of a failed NIC stays.

    Returns
    -------
    Topology
        Ranks close up where compute nodes failed. Switches that lead nowhere go, as in `with_failed_links`.

    Raises
    ------
    TopologyError
        If a node is unknown, or no compute node is left.
    """
    keep = np.ones(topology.n_nodes, dtype=np.bool_)
    for name in names:
        keep[_node(topology, name)] = False
    name = label("with_failed_nodes", topology.name, *map(_written, names))
    return _restricted(topology, name, nodes=keep)


def subset(topology: Topology, *members: int | str) -> Topology:
    """The fabric with some of its compute nodes only, in the order given; the others are absent.

    Parameters
    ----------
    topology : Topology
    *members : int or str
        Ranks, names of compute nodes, or ranges of ranks such as ``"0-7"`` (both ends included). Their order
        is the rank order of the result; a node named again keeps its first position.

    Returns
    -------
    Topology
        Switches that lead nowhere go, as in `with_failed_links`, unless no compute node does.

    Raises
    ------
    TopologyError
        If a member is unknown, is a switch, or there is none.

    Examples
    --------
    >>> from treadle.topologies.catalogue.platforms import mi250
    >>> subset(mi250(2), "0-7", "16-23") == mi250(2, gpus_per_box=8)
    True
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> subset(ring(4), 2, 0).node_names
    ('n2', 'n0')
    """
    if not members:
        raise TopologyError(f"subset of {topology.name}: expected at least one rank or compute node")
    order = list(dict.fromkeys(node for member in members for node in _member_nodes(topology, member)))
    keep = ~topology.is_compute
    keep[order] = True
    name = label("subset", topology.name, *map(_written, members))
    part = topology if keep.all() else _restricted(topology, name, nodes=keep)
    before = np.arange(part.n_nodes)
    before[part.compute_nodes] = [part.node_index(topology.node_names[node]) for node in order]
    return with_node_order(part, before, name)


def with_node_order(topology: Topology, before: Int64Array, name: str) -> Topology:
    """Return the fabric whose node i was node before[i]; links keep their numbers."""
    number = np.argsort(before).astype(np.int32)
    return replace(
        topology,
        name=name,
        node_names=tuple(topology.node_names[node] for node in before.tolist()),
        tails=number[topology.tails],
        heads=number[topology.heads],
        **node_columns(topology, before),
    )


def _member_nodes(topology: Topology, member: int | str) -> list[int]:
    """Return the node indices that a member of a subset means."""
    ranks = len(topology.compute_nodes)
    if isinstance(member, str) and has_node(topology, member):
        node = topology.node_index(member)
        if not topology.is_compute[node]:
            raise TopologyError(f"subset of {topology.name}: {member!r} is a switch; name compute nodes")
        return [node]
    if isinstance(member, str):
        match = _RANGE.fullmatch(member)
        if match is None:
            return [_node(topology, member)]
        first, last = int(match[1]), int(match[2])
    elif isinstance(member, int) and not isinstance(member, bool):
        first = last = member
    else:
        raise TopologyError(f"subset of {topology.name}: expected a rank or a name, found {member!r}")
    if not 0 <= first <= last < ranks:
        raise TopologyError(f"subset of {topology.name}: {member!r} is not within ranks 0 to {ranks - 1}")
    return [int(node) for node in topology.compute_nodes[first : last + 1]]


def _restricted(
    topology: Topology, name: str, *, nodes: BoolArray | None = None, links: BoolArray | None = None
) -> Topology:
    """Keep the masked nodes (default: all), and of the masked links those whose ends stay."""
    nodes = np.ones(topology.n_nodes, dtype=np.bool_) if nodes is None else nodes
    inside = nodes[topology.tails] & nodes[topology.heads]
    links = inside if links is None else links & inside
    nodes = nodes & ~_dead_ends(topology, nodes, links)
    links = links & nodes[topology.tails] & nodes[topology.heads]
    if not (nodes & topology.is_compute).any():
        raise TopologyError(f"{name}: no compute node is left")
    index = np.cumsum(nodes) - 1
    return Topology(
        name=name,
        node_names=tuple(compress(topology.node_names, nodes.tolist())),
        tails=index[topology.tails[links]],
        heads=index[topology.heads[links]],
        bandwidths=topology.bandwidths[links],
        latencies_ns=topology.latencies_ns[links],
        **node_columns(topology, nodes),
    )


def _dead_ends(topology: Topology, nodes: BoolArray, links: BoolArray) -> BoolArray:
    """Return switches that no route needs: without links, or with one neighbour and balanced towards it."""
    n = topology.n_nodes
    chosen = np.flatnonzero(links & (topology.tails != topology.heads))
    tails, heads = topology.tails[chosen].astype(np.int64), topology.heads[chosen].astype(np.int64)
    # what a dead end takes from its neighbour is balanced, so the sum over all links decides throughout
    surplus = sums_of(n, tails, topology.bandwidths[chosen])
    np.subtract.at(surplus, heads, topology.bandwidths[chosen])
    can_go = nodes & ~topology.is_compute & (surplus == 0)
    outward, inward = can_go[tails], can_go[heads]
    pairs = np.concatenate([tails[outward] * n + heads[outward], heads[inward] * n + tails[inward]])
    pairs.sort(kind="stable")  # a few rising runs
    near, far = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], n)  # each neighbour of these switches once
    starts, left = np.searchsorted(near, np.arange(n + 1)), np.bincount(near, minlength=n)
    dead: BoolArray = can_go & (left <= 1)
    waiting = np.flatnonzero(dead).tolist()
    while waiting:
        node = waiting.pop()
        for other in far[starts[node] : starts[node + 1]].tolist():
            left[other] -= 1
            if can_go[other] and left[other] <= 1 and not dead[other]:
                dead[other] = True
                waiting.append(other)
    return dead


def trimmed(topology: Topology) -> Topology:
    """The fabric with bandwidths lowered, by as little as possible in total, until every switch is balanced.

    Switch splitting needs equal ingress and egress at every switch. This gives up the surplus: among all
    lowered bandwidths with that property, the sum of those returned is the largest. A link that loses all its
    bandwidth is removed, and so are switches that then lead nowhere. Compute nodes need no balance.

    Parameters
    ----------
    topology : Topology

    Returns
    -------
    Topology
        Equal to `topology` if every switch is balanced already.

    Notes
    -----
    See `topologies.transforms.balance`. The result keeps the largest total, not the largest throughput, which
    ``solve`` with ``trim`` looks for.
    """
    left = balanced_capacities(
        topology.tails, topology.heads, topology.bandwidths, topology.switches.tolist()
    )
    if np.array_equal(left, topology.bandwidths):
        return topology
    return with_bandwidths(topology, left, f"trimmed({topology.name})")[0]


def with_bandwidths(topology: Topology, bandwidths: Int64Array, name: str) -> tuple[Topology, Int32Array]:
    """The fabric with other bandwidths; without links that have none, and switches that then lead nowhere.

    Parameters
    ----------
    topology : Topology
    bandwidths : array of int64, shape (m,)
        Bytes/s, not negative.
    name : str

    Returns
    -------
    Topology
    array of int32
        For each of its links the number of that link in `topology`.
    """
    kept = bandwidths > 0
    other = replace(topology, bandwidths=np.where(kept, bandwidths, topology.bandwidths))
    made = _restricted(other, name, links=kept)
    names = set(made.node_names)
    stays = np.array([node in names for node in topology.node_names])
    return made, np.flatnonzero(kept & stays[topology.tails] & stays[topology.heads]).astype(np.int32)


def with_parallel_links(topology: Topology, times: int) -> Topology:
    """Every link `times` times over; copies of a link have neighbouring numbers: link e becomes e * times on.

    Raises
    ------
    TopologyError
        If `times` is not positive or the result would be too large.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> with_parallel_links(ring(4), 2)
    <Topology with_parallel_links(ring(4), 2): 4 compute, 0 switches, 16 links>
    """
    check_count("with_parallel_links", "times", times)
    check_size("with_parallel_links", topology.n_nodes, topology.n_links * times)
    columns: dict[str, Any] = {key: np.repeat(getattr(topology, key), times) for key in LINK_COLUMNS}
    return replace(topology, name=f"with_parallel_links({topology.name}, {times})", **columns)


def with_reverse_links(topology: Topology) -> Topology:
    """The fabric and its transpose together (dissertation, section A.1.6).

    Link e keeps its number; its reverse is link m + e. A d-regular fabric becomes 2d-regular and
    bidirectional.

    Raises
    ------
    TopologyError
        If the result would be too large.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> with_reverse_links(ring(4, bidirectional=False)).n_links
    8
    """
    check_size("with_reverse_links", topology.n_nodes, topology.n_links * 2)
    return replace(
        topology,
        name=f"with_reverse_links({topology.name})",
        tails=np.concatenate([topology.tails, topology.heads]),
        heads=np.concatenate([topology.heads, topology.tails]),
        bandwidths=np.tile(topology.bandwidths, 2),
        latencies_ns=np.tile(topology.latencies_ns, 2),
    )


def with_links(topology: Topology, *, bandwidth: int, latency: int = 0) -> Topology:
    """Return the fabric with equal links.

    Parameters
    ----------
    topology : Topology
    bandwidth : int
        Of every link, bytes/s.
    latency : int
        Of every link, nanoseconds.

    Raises
    ------
    TopologyError
        If a value is out of range.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> with_links(ring(4), bandwidth=25 * 10**9).name
    'with_links(ring(4), bandwidth="25000000000B/s")'
    """
    check_count("with_links", "bandwidth", bandwidth, most=MAX_BANDWIDTH)
    check_count("with_links", "latency", latency, least=0, most=2**62)
    name = expression("with_links", topology.name, bandwidth=(bandwidth, 0), latency=(latency, 0))
    rates, delays = (np.full(topology.n_links, value, dtype=np.int64) for value in (bandwidth, latency))
    return replace(topology, name=name, bandwidths=rates, latencies_ns=delays)
