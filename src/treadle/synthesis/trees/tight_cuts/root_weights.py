"""Root weights of an allreduce that make its reduce-scatter and allgather faster.

An allreduce chooses its roots freely. With shares w(v), sum 1, an allgather takes a seconds per byte where
1 - w(S) <= a d-(S) for each set S of nodes, d- the bandwidth into it; a reduce-scatter takes b with d+, the
bandwidth out. The least a + b over all shares is a linear program; here over the sets of a family and single
ranks only, where equivalent sets have one variable. So a box that lost a network card is the root of
more, and waits for less. The program's prices are lengths of links, which bound every allreduce
(`GroupDualCertificate`): where they prove what the trees reach, these shares are the best, and so is taking
turns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.math.columns import RestrictedMaster
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tree_parts import in_largest_unit

_MOST_CUTS = 1000
"""Different sets beyond which the program would take long; fabrics so irregular have no subproblems
either."""


@dataclass(frozen=True)
class RootWeights:
    """Shares of roots, and what the cuts that they come from allow.

    Parameters
    ----------
    weights : tuple of int
        Of each rank, in lowest terms.
    rate : Fraction
        Algbw of an allreduce as reduce-scatter and allgather, bytes/s, as far as these cuts limit it.
    certificate : GroupDualCertificate
        Lengths that may prove it.
    """

    weights: tuple[int, ...]
    rate: Fraction
    certificate: GroupDualCertificate


@dataclass(frozen=True)
class _Cut:
    """Equivalent sets or ranks.

    Parameters
    ----------
    ranks : mapping of class to int
        How many ranks of each class one holds.
    entering, leaving : int
        Bandwidth, bytes/s.
    places : array of int64
        All of them, by their numbers.
    depth : int
        Of sets of a family; -1: ranks.
    """

    ranks: Mapping[int, int]
    entering: int
    leaving: int
    places: Int64Array
    depth: int


def root_weights(problem: Instance, family: Family) -> tuple[RootWeights, ...]:
    """Return the weights for which reduce-scatter and allgather take minimum total time by a family's cuts.

    Parameters
    ----------
    problem : Instance
        The allgather; its weights do not matter.
    family : Family

    Returns
    -------
    tuple of RootWeights
        The best first; then weights that are equal for ranks of the same sets, if these are worse. Empty if
        too many sets are not equivalent, or nothing can be reached.
    """
    coarse, fine = _classes(problem, family)
    found = _shares(problem, family, coarse)
    if found is None:
        return ()
    # ranks of one box have equal shares unless others are faster: their subproblem is simpler then
    finer = None if np.array_equal(coarse, fine) else _shares(problem, family, fine)
    return (found,) if finer is None or finer.rate <= found.rate else (finer, found)


def _shares(problem: Instance, family: Family, classes: Int64Array) -> RootWeights | None:
    """Return the best shares that are equal within classes."""
    cuts = _cuts(problem, family, classes)
    if len(cuts) > _MOST_CUTS or any(not cut.entering or not cut.leaving for cut in cuts):
        return None
    unit = gcd(*(cut.entering for cut in cuts), *(cut.leaving for cut in cuts))
    sizes = Counter(classes.tolist())
    program = RestrictedMaster()
    gather, scatter = program.add_column(-1), program.add_column(-1)
    share = {number: program.add_column(0) for number in sorted(sizes)}
    program.add_row({share[number]: count for number, count in sizes.items()}, 1, equality=True)
    rows: list[tuple[int, _Cut, bool]] = []
    for cut in cuts:
        inside = {share[number]: count for number, count in cut.ranks.items()}
        lacking = {column: -count for column, count in inside.items()}
        for column, into, out in (
            (gather, cut.entering // unit, cut.leaving // unit),
            (scatter, cut.leaving // unit, cut.entering // unit),
        ):
            is_in = column == gather
            rows.append((program.add_row({**lacking, column: -into}, -1), cut, is_in))
            rows.append((program.add_row({**inside, column: -out}, 0), cut, not is_in))
    program.near_optimum()
    vertex = program.exact_optimum()
    if vertex is None:
        return None
    times = vertex.primal[gather] / unit, vertex.primal[scatter] / unit
    even = _even_shares(cuts, sizes, times)
    if even is None:
        return None
    weights = tuple(in_largest_unit([even[number] for number in classes.tolist()]))
    lengths = _lengths(problem, family, _prices(rows, vertex.dual))
    return RootWeights(weights, 1 / sum(times, Fraction(0)), GroupDualCertificate(lengths))


def _ends(problem: Instance) -> list[tuple[int, int]]:
    """Return the bandwidth into and out of each rank."""
    sides = _degrees(problem, np.arange(problem.n_nodes))
    return list(zip(*(side[problem.terminals].tolist() for side in sides), strict=True))


def _widths(problem: Instance, family: Family) -> list[tuple[int, int]]:
    """Return the bandwidth into and out of each set."""
    width = [(0, 0)] * family.n_sets
    for row in family.ancestors[1:]:
        entering, leaving = _degrees(problem, row)
        for place in np.unique(row[row >= 0]).tolist():
            width[place] = int(entering[place]), int(leaving[place])
    return width


def _classes(problem: Instance, family: Family) -> tuple[Int64Array, Int64Array]:
    """Return the class of each rank by the sets that hold it, and by its own links too."""
    numbers: defaultdict[Hashable, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # number keys in order of appearance
    ends, width = _ends(problem), _widths(problem, family)
    of_set = family.innermost[problem.terminals]
    own: list[Counter[Hashable]] = [Counter() for _ in range(family.n_sets)]
    for place, end in zip(of_set.tolist(), ends, strict=True):
        own[place][end] += 1
    # from the inside out a label for the contents of a set, then from the outside in for its position
    inner: list[Counter[Hashable]] = [Counter() for _ in range(family.n_sets)]
    label = [0] * family.n_sets
    for place in range(family.n_sets - 1, -1, -1):
        held = frozenset(own[place].items()), frozenset(inner[place].items())
        label[place] = numbers["set", width[place], held]
        if place:
            inner[int(family.outer[place])][label[place]] += 1
    known: list[int] = []
    for place, outer in enumerate(family.outer.tolist()):
        known.append(numbers["place", known[outer] if place else -1, label[place]])
    coarse = [known[place] for place in of_set.tolist()]
    fine = [numbers["rank", one, end] for one, end in zip(coarse, ends, strict=True)]
    one, other = (np.unique(row, return_inverse=True)[1] for row in (coarse, fine))
    return one.astype(np.int64), other.astype(np.int64)


def _cuts(problem: Instance, family: Family, classes: Int64Array) -> list[_Cut]:
    """Return the cuts around sets and ranks, equivalent ones once."""
    width = _widths(problem, family)
    alike: dict[Hashable, list[int]] = defaultdict(list)
    held: dict[int, frozenset[tuple[int, int]]] = {}
    size = int(classes.max()) + 1
    for depth, row in enumerate(family.ancestors[1:], start=1):
        of = row[problem.terminals].astype(np.int64)
        live = of >= 0
        pairs, counts = np.unique(of[live] * size + classes[live], return_counts=True)
        holds: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            holds[pair // size].append((pair % size, count))
        for place, inside in holds.items():
            if sum(count for _, count in inside) < len(classes):
                held[place] = frozenset(inside)
                alike[depth, width[place], held[place]].append(place)
    cuts = [
        _Cut(dict(held[places[0]]), *width[places[0]], np.array(places), int(family.depth[places[0]]))
        for places in alike.values()
    ]
    by_end: dict[tuple[int, tuple[int, int]], list[int]] = defaultdict(list)
    for terminal, number, end in zip(
        problem.terminals.tolist(), classes.tolist(), _ends(problem), strict=True
    ):
        by_end[number, end].append(terminal)
    for (number, end), terminals in by_end.items():
        cuts.append(_Cut({number: 1}, *end, np.array(terminals), -1))
    return cuts


def _degrees(problem: Instance, row: np.ndarray) -> tuple[Int64Array, Int64Array]:
    """Return the bandwidth into and out of the sets that nodes are in (-1: in none)."""
    tails, heads = row[problem.tails], row[problem.heads]
    size = int(row.max(initial=-1)) + 1
    into, out = (
        sums_of(size, ends[crosses], problem.bandwidths[crosses])
        for ends in (heads, tails)
        for crosses in [(heads != tails) & (ends >= 0)]
    )
    return into, out


def _even_shares(
    cuts: list[_Cut], sizes: Counter[int], times: tuple[Fraction, Fraction]
) -> dict[int, Fraction] | None:
    """Among the weights that allow these times of allgather and reduce-scatter, those with the largest
    minimum.

    A vertex of the program above would leave ranks without any, where others have spare capacity.
    """
    whole = lcm(*(time.denominator for time in times))
    program = RestrictedMaster(whole)
    least = program.add_column(1)
    share = {number: program.add_column(0) for number in sorted(sizes)}
    program.add_row({share[number]: count for number, count in sizes.items()}, whole, equality=True)
    for column in share.values():
        program.add_row({least: 1, column: -1})
    gather, scatter = (int(time * whole) for time in times)
    for cut in cuts:
        inside = {share[number]: count for number, count in cut.ranks.items()}
        lacking = {column: -count for column, count in inside.items()}
        most = min(cut.entering * gather, cut.leaving * scatter)
        program.add_row(lacking, min(most - whole, 0))
        program.add_row(inside, min(cut.leaving * gather, cut.entering * scatter, whole))
    program.near_optimum()
    vertex = program.exact_optimum()
    if vertex is None:
        return None
    return {number: vertex.primal[column] / whole for number, column in share.items()}


def _prices(
    rows: list[tuple[int, _Cut, bool]], dual: Sequence[Fraction]
) -> list[tuple[_Cut, bool, Fraction]]:
    """Prices of the ways into and out of each cut."""
    sums: dict[tuple[int, bool], Fraction] = defaultdict(Fraction)
    cuts = {id(cut): cut for _, cut, _ in rows}
    for row, cut, is_in in rows:
        sums[id(cut), is_in] += abs(dual[row])
    # where all cuts have equal ingress and egress, both phases are equal, and prices may be
    if all(cut.entering == cut.leaving for cut in cuts.values()):
        sums = {key: (sums[key] + sums[key[0], not key[1]]) / 2 for key in list(sums)}
    return [(cuts[number], is_in, price) for (number, is_in), price in sums.items()]


def _lengths(
    problem: Instance, family: Family, prices: list[tuple[_Cut, bool, Fraction]]
) -> tuple[Fraction, ...]:
    """Prices of cuts as lengths of the links into or out of their sets; links of one sum share one value."""
    sums: dict[tuple[int, int], Fraction] = {}
    number = np.zeros(len(problem.tails), dtype=np.int64)
    values = [Fraction(0)]
    for cut, is_in, price in prices:
        if not price:
            continue
        row = np.arange(problem.n_nodes) if cut.depth < 0 else family.ancestors[cut.depth]
        tails, heads = row[problem.tails], row[problem.heads]
        crossing = (tails != heads) & np.isin(heads if is_in else tails, cut.places)
        for old in np.unique(number[crossing]).tolist():
            key = len(values), old
            sums[key] = values[old] + abs(price) / len(cut.places)
            values.append(sums[key])
            number[crossing & (number == old)] = len(values) - 1
    return tuple(values[place] for place in number.tolist())
