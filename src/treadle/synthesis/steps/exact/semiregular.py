"""Groups of automorphisms that move every node: the symmetry that the restricted search imposes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from treadle.synthesis.steps.exact.exact_problem import ExactProblem

Permutation: TypeAlias = tuple[int, ...]

_PER_TARGET = 12
"""Semiregular automorphisms collected per image of node 0."""

_BUDGET = 20_000
"""Nodes of the backtracking tree per image of node 0."""

_PAIRS = 400
"""Pairs of generators tried."""


def semiregular_group(problem: ExactProblem, *, seed: int) -> list[Permutation]:
    """A large group of automorphisms of which only the identity fixes a node; the identity comes first.

    Regular (as large as the fabric) on Cayley graphs that it succeeds on; trivial where it finds nothing. The
    search is limited, so a larger group may exist.

    Parameters
    ----------
    problem : ExactProblem
    seed : int
        Of the random pairs of generators.
    """
    n = problem.n_nodes
    identity = tuple(range(n))
    pool = _semiregular_automorphisms(problem)
    best = [identity]
    for one in pool:
        group = _generated(n, [one])
        if group is not None and len(group) > len(best):
            best = group
    generator = np.random.default_rng(seed)
    for _ in range(_PAIRS if len(pool) > 1 else 0):
        # its elements all take node 0 to different nodes, so no such group is larger
        if len(best) == n:
            break
        one, other = (pool[int(i)] for i in generator.integers(len(pool), size=2))
        group = _generated(n, [one, other])
        if group is not None and len(group) > len(best):
            best = group
    return best


def link_permutation(problem: ExactProblem, nodes: Permutation) -> list[int]:
    """Image of each link under an automorphism; parallel links of equal capacity keep their order."""
    numbers: dict[tuple[int, int, int], list[int]] = {}
    keys = list(zip(problem.tails, problem.heads, problem.capacity, strict=True))
    place = []
    for link, key in enumerate(keys):
        same = numbers.setdefault(key, [])
        place.append(len(same))
        same.append(link)
    return [
        numbers[nodes[tail], nodes[head], capacity][rank]
        for (tail, head, capacity), rank in zip(keys, place, strict=True)
    ]


def _semiregular_automorphisms(problem: ExactProblem) -> list[Permutation]:
    colours = _pair_colours(problem)
    found: list[Permutation] = []
    for target in range(1, problem.n_nodes):
        count = 0
        for automorphism in _automorphisms(colours, target):
            if _is_semiregular(automorphism):
                found.append(automorphism)
                count += 1
                if count == _PER_TARGET:
                    break
    return found


def _pair_colours(problem: ExactProblem) -> NDArray[np.int64]:
    """A number for every pair of nodes that automorphisms keep: links and distances, shape (n, n)."""
    n = problem.n_nodes
    links: dict[tuple[int, int], list[int]] = {}
    for tail, head, capacity in zip(problem.tails, problem.heads, problem.capacity, strict=True):
        links.setdefault((tail, head), []).append(capacity)
    kinds: dict[tuple[tuple[int, ...], int], int] = {}
    colours = np.zeros((n, n), dtype=np.int64)
    for u in range(n):
        for v in range(n):
            key = (tuple(sorted(links.get((u, v), []))), int(problem.distances[u, v]))
            colours[u, v] = kinds.setdefault(key, len(kinds))
    return colours


def _automorphisms(colours: NDArray[np.int64], target: int) -> Iterator[Permutation]:
    """Colour-preserving permutations that take node 0 to `target` and fix no node, by backtracking."""
    n = len(colours)
    image = [target]
    candidates = [_fitting(colours, image, n)]
    budget = _BUDGET
    while candidates and budget:
        budget -= 1
        if len(image) == n:
            yield tuple(image)
            image.pop()
            candidates.pop()
            continue
        if not candidates[-1]:
            candidates.pop()
            image.pop()
            continue
        image.append(candidates[-1].pop())
        candidates.append(_fitting(colours, image, n))


def _fitting(colours: NDArray[np.int64], image: list[int], n: int) -> list[int]:
    """Images of the next node that agree with those chosen, in falling order."""
    node = len(image)
    if node == n:
        return []
    rows, columns = colours[image, :], colours[:, image]
    fits = (rows == colours[:node, node, None]).all(axis=0) & (columns == colours[node, :node]).all(axis=1)
    fits &= np.diagonal(colours) == colours[node, node]
    fits[image] = False
    # only the identity may fix a node
    fits[node] = False
    return [int(v) for v in np.flatnonzero(fits)[::-1]]


def _is_semiregular(permutation: Permutation) -> bool:
    """Whether all cycles are equally long, so that no power but the identity fixes a node."""
    lengths = set()
    seen: set[int] = set()
    for start in range(len(permutation)):
        node, length = start, 0
        while node not in seen:
            seen.add(node)
            node = permutation[node]
            length += 1
        if length:
            lengths.add(length)
    return len(lengths) == 1


def _generated(n: int, generators: list[Permutation]) -> list[Permutation] | None:
    """The group, identity first, or None if some element but the identity fixes a node."""
    identity = tuple(range(n))
    group, known = [identity], {identity}
    # the list grows while it is walked; inverses come by themselves, as powers in a finite group
    for element in group:
        for generator in generators:
            product = tuple(generator[v] for v in element)
            if product in known:
                continue
            # it is not the identity, which is known from the start
            if any(v == image for v, image in enumerate(product)):
                return None
            known.add(product)
            group.append(product)
    return group
