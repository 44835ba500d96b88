"""Capacities that every switch passes on evenly, where bandwidths or their floors are not such."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from operator import attrgetter

import numpy as np

from treadle.arrays import Int32Array, Int64Array, mask_of
from treadle.errors import InfeasibleError
from treadle.math.columns import IntegerProgram
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.instance import Instance, cut_weight, find_violated_cut, instance_of
from treadle.synthesis.trees.optimality import instance_optimum, reachable_rate
from treadle.synthesis.trees.switch_removal import unbalanced_relay
from treadle.topologies.topology import MAX_BANDWIDTH, Topology
from treadle.topologies.transforms.balance import balanced_capacities

MOST_LINKS = 2**13
"""Larger fabrics have no integer program of their own."""

_MOST_CUTS = 2**9
_SAFE = 2**31
_CLOSE = 1e-7
"""Relative tolerance of floats."""
_LARGEST_DENOMINATOR = 2**10
_LARGEST_SCALE = 2**20


def capacities_within(problem: Instance, limits: Int64Array, trees: int) -> Int64Array | None:
    """Return integral capacities up to `limits`, balanced at every relay, that hold the trees.

    Parameters
    ----------
    problem : Instance
    limits : array of int64, shape (m,)
    trees : int
        k, per unit of shard weight.

    Returns
    -------
    array of int64, shape (m,), or None
        None if none exist, or if the integer program is too large.

    Notes
    -----
    Any k trees at every root pass every relay with as many units in as out, so they use such capacities; and
    by the theorems behind switch removal and packing, such capacities hold k trees. An integer program over
    the cuts decides; cuts that its solutions violate are added.
    """
    if len(limits) > MOST_LINKS or int(limits.max()) >= _SAFE:
        return None
    program = IntegerProgram()
    # maximize the total: the more capacity there is, the fewer cuts have to be added
    for limit in limits.tolist():
        program.column(1, upper=limit)
    _add_balance(program, problem)
    for nodes in _around_terminals(problem):
        _add_cut(program, problem, nodes, trees=trees)
    for _ in range(_MOST_CUTS):
        values = program.integers()
        if values is None:
            return None
        found = np.array(values, dtype=np.int64)
        if np.any(found > limits) or unbalanced_relay(problem, found) is not None:
            return None  # rounding errors of the solver
        violated = find_violated_cut(problem, found, multiplicity=trees)
        if violated is None:
            return found
        _add_cut(program, problem, violated[1], trees=trees)
    return None


def _around_terminals(problem: Instance) -> Iterator[Int32Array]:
    """Yield for each terminal all other nodes."""
    everything = np.arange(problem.n_nodes, dtype=np.int32)
    return (everything[everything != terminal] for terminal in problem.terminals.tolist())


def _add_cut(
    program: IntegerProgram, problem: Instance, nodes: Int32Array, *, trees: int = 0, rate: int | None = None
) -> None:
    """Require capacity out of a set for its weight times `trees`, or times the column `rate`."""
    inside, weight = mask_of(problem.n_nodes, nodes), cut_weight(problem, nodes)
    row = dict.fromkeys(np.flatnonzero(inside[problem.tails] & ~inside[problem.heads]).tolist(), 1)
    program.add_row(row if rate is None else {**row, rate: -weight}, lower=trees * weight)


def _add_balance(program: IntegerProgram, problem: Instance) -> None:
    """Require equal ingress and egress of every relay; column e is the capacity of link e."""
    for relay in problem.relays.tolist():
        into = np.flatnonzero((problem.heads == relay) & (problem.tails != relay)).tolist()
        out = np.flatnonzero((problem.tails == relay) & (problem.heads != relay)).tolist()
        if into or out:
            program.add_row({**dict.fromkeys(into, 1), **dict.fromkeys(out, -1)}, 0, lower=0)


@dataclass(frozen=True)
class Balancing:
    """Bandwidths lowered until every switch and forwarder is balanced.

    Parameters
    ----------
    bandwidths : array of int64, shape (m,)
        Of each link, in 1/scale bytes/s.
    scale : int
    share : Fraction
        Of the rate that the whole bandwidths allow; of an allreduce the lesser of its two directions' rates.
    """

    bandwidths: Int64Array
    scale: int
    share: Fraction


def best_balancing(topology: Topology, collective: Collective) -> Balancing:
    """Balanced bandwidths with the highest rate; of those that attain it the largest in total.

    Parameters
    ----------
    topology : Topology
    collective : Collective

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached, or, on large fabrics, not by the bandwidths of the largest total.

    Notes
    -----
    The largest total is taken if it costs no rate. Else a linear program over the cuts decides, which grows
    by those that its solutions violate: trees pass every relay with as many units in as out, so no schedule
    of trees is faster. It is solved in floats; fractions close by are checked exactly.
    """
    kinds = [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER]
    kinds = kinds if collective.kind is CollectiveKind.ALLREDUCE else [collective.kind]
    problems = [instance_of(topology, replace(collective, kind=kind)) for kind in kinds]
    unrestricted = min(instance_optimum(problem).rate for problem in problems)
    relays = problems[0].relays.tolist()

    def balancing(bandwidths: Int64Array, scale: int) -> Balancing:
        rates = [reachable_rate(replace(problem, bandwidths=bandwidths)) for problem in problems]
        return Balancing(bandwidths, scale, min(rates) / scale / unrestricted)

    ends = topology.tails, topology.heads
    best = balancing(balanced_capacities(*ends, topology.bandwidths, relays), 1)
    if best.share < 1 and topology.n_links <= MOST_LINKS:
        kept, scale = _fastest(problems)
        capacities = balanced_capacities(*ends, topology.bandwidths * scale, relays, kept=kept)
        best = max(best, balancing(capacities, scale), key=attrgetter("share"))
    if not best.share:
        raise InfeasibleError(
            f"{topology.name}: taking the least bandwidth away to balance switches and forwarders cuts ranks "
            f"off, and of {topology.n_links} links (at most {MOST_LINKS}) no better way is looked for"
        )
    return best


def _fastest(problems: Sequence[Instance]) -> tuple[Int64Array, int]:
    """Balanced bandwidths whose common rate is the highest, as integers and what they are multiplied with."""
    bandwidths = problems[0].bandwidths
    unit = int(np.gcd.reduce(bandwidths))
    program = IntegerProgram()
    for bandwidth in bandwidths.tolist():
        program.column(upper=bandwidth // unit)
    rate = program.column(1)
    _add_balance(program, problems[0])
    for problem in problems:
        for nodes in _around_terminals(problem):
            _add_cut(program, problem, nodes, rate=rate)
    found, scale = np.zeros(len(bandwidths), dtype=np.int64), 1
    for _ in range(_MOST_CUTS):
        solved = program.relaxed()
        if solved is None:
            break
        values = solved[0]
        found, scale = _as_integers(problems[0], values[:rate], unit)
        # a little below the float, or its rounding would violate cuts for ever
        asked = Fraction(values[rate] * (1 - _CLOSE)).limit_denominator(_LARGEST_SCALE) * unit * scale
        violated = [
            (problem, cut[1])
            for problem in problems
            if asked > 0 and (cut := find_violated_cut(problem, found, rate=asked))
        ]
        if not violated:
            break
        for problem, nodes in violated:
            _add_cut(program, problem, nodes, rate=rate)
    return found, scale


def _as_integers(problem: Instance, values: Sequence[float], unit: int) -> tuple[Int64Array, int]:
    """Values in units as balanced integers of 1/scale each, at most the bandwidths."""
    fractions = [Fraction(value).limit_denominator(_LARGEST_DENOMINATOR) * unit for value in values]
    scale = lcm(*(value.denominator for value in fractions))
    scale = min(scale, _LARGEST_SCALE, max(1, MAX_BANDWIDTH // int(problem.bandwidths.max())))
    floors = np.array([int(value * scale) for value in fractions], dtype=np.int64)
    floors = np.minimum(np.maximum(floors, 0), problem.bandwidths * scale)
    return balanced_capacities(problem.tails, problem.heads, floors, problem.relays.tolist()), scale
