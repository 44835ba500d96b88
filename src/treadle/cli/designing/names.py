"""Sets of nodes and links in few words: whole boxes by their prefix, numbered names as ranges or patterns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from treadle.arrays import Int64Array
from treadle.cli.quantities import AS_THEY_COME, Rates
from treadle.topologies.topology import Topology

_NUMBERED = re.compile(r"(.*?)(\d+)")
_DIGITS = re.compile(r"\d+")
_SHOWN = 6


def describe_nodes(topology: Topology, nodes: Iterable[int]) -> str:
    """Name a set of nodes shortly: ``box0.* (9 nodes)``, ``gpu0-3, sw0 (5 nodes)``, ``all but box1.nic0``.

    Parameters
    ----------
    topology : Topology
    nodes : iterable of int
        Node indices.
    """
    inside = set(nodes)
    groups: dict[str, list[int]] = defaultdict(list)
    for node, name in enumerate(topology.node_names):
        prefix, dot, _ = name.partition(".")
        groups[prefix if dot else ""].append(node)
    is_inside = [node in inside for node in range(topology.n_nodes)]
    terms, others = (_terms(topology, groups, is_inside, side) for side in (True, False))
    count = f"({len(inside)} node{'s' if len(inside) != 1 else ''})"
    if others and len(others) < len(terms):
        return f"all but {_shorten(others)} {count}"
    return f"{_shorten(terms)} {count}"


def describe_links(topology: Topology, links: Iterable[int], rates: Rates = AS_THEY_COME) -> str:
    """Name a set of links by patterns: ``box*.gpu*->box*.nic* (all 16 links of 25 GB/s)``.

    Every number in a name becomes ``*``; links of one pattern and bandwidth stand together, the most first.

    Parameters
    ----------
    topology : Topology
    links : iterable of int
        Link numbers.
    rates : Rates
        How bandwidths are shown.
    """
    chosen = np.fromiter(links, dtype=np.int64)
    if len(chosen) == topology.n_links:
        return f"all {topology.n_links} links"
    kinds = _kinds(topology)
    codes, firsts, counts = np.unique(kinds[chosen], return_index=True, return_counts=True)
    wholes = np.bincount(kinds)
    terms = []
    for place in np.lexsort((firsts, -counts)).tolist():
        count, whole = int(counts[place]), int(wholes[codes[place]])
        share = f"{count} of {whole}" if count < whole else "all" if whole > 1 else ""
        number = str(whole) if share == "all" else ""
        noun = "links" if whole > 1 else "link"
        words = " ".join(word for word in (share, number, noun) if word)
        link = int(chosen[firsts[place]])
        pattern, bandwidth = _DIGITS.sub("*", topology.link_name(link)), int(topology.bandwidths[link])
        terms.append(f"{pattern} ({words} of {rates.link(bandwidth)})")
    return _shorten(terms)


def _kinds(topology: Topology) -> Int64Array:
    """A number for each link, the same for links of one pattern and bandwidth."""
    numbers: dict[str, int] = {}
    pattern = np.array(
        [numbers.setdefault(_DIGITS.sub("*", name), len(numbers)) for name in topology.node_names],
        dtype=np.int64,
    )
    ends = pattern[topology.tails] * len(numbers) + pattern[topology.heads]
    _, ends = np.unique(ends, return_inverse=True)
    values, speeds = np.unique(topology.bandwidths, return_inverse=True)
    return np.unique(ends * len(values) + speeds, return_inverse=True)[1].astype(np.int64)


def _terms(
    topology: Topology, groups: Mapping[str, list[int]], is_inside: list[bool], side: bool
) -> list[str]:
    """The nodes inside (or outside): whole groups as ``prefix.*``, the rest as ranges of numbered names."""
    whole, rest = [], []
    for prefix, members in groups.items():
        chosen = [node for node in members if is_inside[node] is side]
        if prefix and len(chosen) == len(members) > 1:
            whole.append(prefix)
        else:
            rest += [topology.node_names[node] for node in chosen]
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
        terms += [f"{stem}{low}" if low == high else f"{stem}{low}-{high}" for low, high in _runs(found)]
    return terms + plain


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _shorten(terms: list[str]) -> str:
    shown = ", ".join(terms[:_SHOWN])
    return f"{shown}, ... ({len(terms) - _SHOWN} more)" if len(terms) > _SHOWN else shown
