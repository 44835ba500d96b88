"""Sets of nodes and links in few words: boxes by their prefix, numbered names as ranges, links by kind."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import distinct_few, mask_of
from treadle.render.quantities import AS_THEY_COME, Rates
from treadle.topologies.topology import Topology

_NUMBERED = re.compile(r"(.*?)(\d+)")
_KIND = re.compile(r"(?:[\w-]+\.)*([A-Za-z]+(?:[_-][A-Za-z]+)*)[\d_-]*")
"""A node's name of which a word is left that says its kind: ``box3.gpu0`` is a gpu."""
_SHOWN = 6


def describe_nodes(topology: Topology, nodes: Iterable[int]) -> str:
    """Name a set of nodes: ``{box0.*} (9 nodes)``, ``{gpu0, sw0}``, ``all but {box1.nic0} (35 nodes)``.

    Parameters
    ----------
    topology : Topology
    nodes : iterable of int
        Node indices.
    """
    inside = sorted(set(nodes))
    terms = _terms(topology, inside)
    others: list[str] = []
    if len(terms) > 1:  # no set is named in fewer words than one
        others = _terms(topology, np.flatnonzero(~mask_of(topology.n_nodes, inside)).tolist())
    but = bool(others) and len(others) < len(terms)
    shown = f"all but {{{_shorten(others)}}}" if but else f"{{{_shorten(terms)}}}"
    return shown if not but and len(terms) == len(inside) <= _SHOWN else f"{shown} ({len(inside)} nodes)"


def describe_links(topology: Topology, links: Iterable[int], rates: Rates = AS_THEY_COME) -> str:
    """Name a set of links by kinds: ``all links gpu <-> nic (32 of 25 GB/s)``.

    A link's kind is that of its ends and its bandwidth; both directions make one kind where as many of both
    are in the set. Kinds that are complete come first, then those with most links.

    Parameters
    ----------
    topology : Topology
    links : iterable of int
        Link numbers.
    rates : Rates
        How bandwidths are shown.
    """
    chosen = links if isinstance(links, np.ndarray) else np.fromiter(links, dtype=np.int64)
    if len(chosen) == topology.n_links:
        return f"all {topology.n_links} links"
    kinds, ends = _link_kinds(topology)
    counts, wholes = np.bincount(kinds[chosen], minlength=len(ends)), np.bincount(kinds)
    number = {end: kind for kind, end in enumerate(ends)}
    of_chosen = kinds[chosen]
    firsts = {kind: int(chosen[np.argmax(of_chosen == kind)]) for kind in np.flatnonzero(counts).tolist()}
    terms: list[tuple[int, str]] = []
    complete: list[tuple[int, str]] = []
    for kind in sorted(firsts, key=lambda kind: firsts[kind]):
        tail, head, bandwidth = ends[kind]
        count, whole, arrow = int(counts[kind]), int(wholes[kind]), "->"
        back = number.get((head, tail, bandwidth), kind)
        if back != kind and (counts[back], wholes[back]) == (count, whole):
            if firsts[back] < firsts[kind]:
                continue  # said with its first direction
            count, whole, arrow = 2 * count, 2 * whole, "<->"
        speed = rates.link(bandwidth)
        if count == 1:
            terms.append((1, f"link {topology.link_name(firsts[kind]).replace('->', ' -> ')} ({speed})"))
        elif count == whole:
            complete.append((count, f"{tail} {arrow} {head} ({whole} of {speed})"))
        else:
            terms.append((count, f"{count} of {whole} links {tail} {arrow} {head} ({speed})"))
    entire, parts = (
        [text for _, text in sorted(group, key=lambda one: -one[0])] for group in (complete, terms)
    )
    start = [f"all links {_listed(entire)}"] if entire else []
    return _listed([*start, *parts], ";" if entire else ",")


def _listed(terms: Sequence[str], comma: str = ",") -> str:
    if len(terms) > _SHOWN:
        return f"{', '.join(terms[:_SHOWN])} and {len(terms) - _SHOWN} more kinds"
    return " and ".join(filter(None, (f"{comma} ".join(terms[:-1]), *terms[-1:])))


def _link_kinds(topology: Topology) -> tuple[NDArray[np.signedinteger], list[tuple[str, str, int]]]:
    """The number of each link's kind; of each kind its tail, head and bandwidth."""
    place: dict[str, int] = {}
    kinds = (place.setdefault(_kind_of(name), len(place)) for name in topology.node_names)
    kind = np.fromiter(kinds, dtype=np.int32, count=topology.n_nodes)
    names = list(place)
    speeds, of_link = distinct_few(topology.bandwidths)
    kind = kind.astype(np.min_scalar_type(-(len(names) ** 2) * len(speeds)))  # links may be many
    codes = (kind[topology.tails] * len(names) + kind[topology.heads]) * len(speeds) + of_link
    found, numbers = distinct_few(codes)
    pairs = [divmod(int(code), len(speeds)) for code in found]
    ends = [(*divmod(pair, len(names)), int(speeds[speed])) for pair, speed in pairs]
    return numbers, [(names[tail], names[head], speed) for tail, head, speed in ends]


def _kind_of(name: str) -> str:
    """``gpu`` of ``box3.gpu0``; of a name without such a word the name with ``*`` in the place of numbers."""
    found = _KIND.fullmatch(name)
    return found[1] if found else re.sub(r"\d+", "*", name)


def _terms(topology: Topology, nodes: Sequence[int]) -> list[str]:
    """The nodes: whole groups as ``prefix.*``, the rest as ranges of numbered names."""
    groups: dict[str, list[str]] = {}
    for node in nodes:
        name = topology.node_names[node]
        prefix, dot, _ = name.partition(".")
        groups.setdefault(prefix if dot else "", []).append(name)
    starts = tuple(f"{prefix}." for prefix in groups if prefix)
    members: Counter[str] = Counter()
    if len(starts) <= _SHOWN:  # few prefixes are tested sooner than all names are split
        members.update(name.partition(".")[0] for name in topology.node_names if name.startswith(starts))
    else:
        members.update(name.partition(".")[0] for name in topology.node_names if "." in name)
    whole, rest = [], []
    for prefix, names in groups.items():
        if prefix and len(names) == members[prefix] > 1:
            whole.append(prefix)
        else:
            rest += names
    return [*(f"{term}.*" for term in _ranges(whole)), *_ranges(rest)]


def _ranges(names: list[str]) -> list[str]:
    """Runs of names that differ in a final number as ``stem0-3``, in order of first appearance."""
    numbers: dict[str, list[int]] = defaultdict(list)
    plain: list[str] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match and str(int(match[2])) == match[2]:
            numbers[match[1]].append(int(match[2]))
        else:
            plain.append(name)
    terms = []
    for stem, found in numbers.items():
        ordered = np.array(sorted(found), dtype=object)  # numbers in names may have any size
        for run in np.split(ordered, np.flatnonzero(np.diff(ordered) != 1) + 1):
            terms += [f"{stem}{run[0]}-{run[-1]}"] if len(run) > 2 else [f"{stem}{n}" for n in run]
    return terms + plain


def _shorten(terms: list[str]) -> str:
    shown = ", ".join(terms[:_SHOWN])
    return f"{shown}, ... ({len(terms) - _SHOWN} more)" if len(terms) > _SHOWN else shown
