"""Capacities that every switch passes on evenly, where bandwidths or their floors are not such."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

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
"""What floats may be off, as a share."""
_LARGEST_DENOMINATOR = 2**10
_LARGEST_SCALE = 2**20


def capacities_within(problem: Instance, limits: Int64Array, trees: int) -> Int64Array | None:
    """Whole capacities up to `limits`, balanced at every relay, that hold `trees` trees per unit of weight.

    Parameters
    ----------
    problem : Instance
    limits : array of int64, shape (m,)
    trees : int
        k.

    Returns
    -------
    array of int64, shape (m,), or None
        None if there are none; or if the integer program is too large to tell.

    Notes
    -----
    Any k trees at every root pass every relay with as many units in as out, so they use such capacities; and
    by the theorems behind switch removal and packing, such capacities hold k trees. An integer program over
    the cuts decides; it grows by those that its solutions violate.
    """
    if len(limits) > MOST_LINKS or int(limits.max()) >= _SAFE:
        return None
    program = IntegerProgram()
    # the largest total: the more capacity there is, the fewer cuts have to be learnt
    for limit in limits.tolist():
        program.column(1, upper=limit)
    _add_balance(program, problem)

    def add_cut(nodes: Int32Array) -> None:
        crossing = _crossing(problem, nodes)
        program.add_row(dict.fromkeys(crossing, 1), lower=trees * cut_weight(problem, nodes))

    everything = np.arange(problem.n_nodes, dtype=np.int32)
    for terminal in problem.terminals.tolist():
        add_cut(everything[everything != terminal])
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
        add_cut(violated[1])
    return None


def _crossing(problem: Instance, nodes: Int32Array) -> list[int]:
    """The links out of a set."""
    inside = mask_of(problem.n_nodes, nodes)
    links: list[int] = np.flatnonzero(inside[problem.tails] & ~inside[problem.heads]).tolist()
    return links


def _add_balance(program: IntegerProgram, problem: Instance) -> None:
    """As much into as out of every relay; column e is the capacity of link e."""
    for relay in problem.relays.tolist():
        into = np.flatnonzero((problem.heads == relay) & (problem.tails != relay)).tolist()
        out = np.flatnonzero((problem.tails == relay) & (problem.heads != relay)).tolist()
        if into or out:
            program.add_row({**dict.fromkeys(into, 1), **dict.fromkeys(out, -1)}, 0, lower=0)


def _add_cut(program: IntegerProgram, problem: Instance, nodes: Int32Array, rate: int) -> None:
    """Capacity out of a set for the rate, a column, of each unit of weight inside."""
    row = dict.fromkeys(_crossing(problem, nodes), 1)
    program.add_row({**row, rate: -cut_weight(problem, nodes)}, lower=0)


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
    whole = min(instance_optimum(problem).rate for problem in problems)
    relays = problems[0].relays.tolist()

    def balancing(bandwidths: Int64Array, scale: int) -> Balancing:
        rates = [reachable_rate(replace(problem, bandwidths=bandwidths)) for problem in problems]
        return Balancing(bandwidths, scale, min(rates) / scale / whole)

    largest = balancing(balanced_capacities(topology.tails, topology.heads, topology.bandwidths, relays), 1)
    best = largest
    if largest.share < 1 and topology.n_links <= MOST_LINKS:
        kept, scale = _fastest(problems)
        widths = topology.bandwidths * scale
        best = balancing(
            balanced_capacities(topology.tails, topology.heads, widths, relays, kept=kept), scale
        )
        best = max(largest, best, key=lambda one: one.share)
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
        everything = np.arange(problem.n_nodes, dtype=np.int32)
        for terminal in problem.terminals.tolist():
            _add_cut(program, problem, everything[everything != terminal], rate)
    found, scale = np.zeros(len(bandwidths), dtype=np.int64), 1
    for _ in range(_MOST_CUTS):
        solved = program.relaxed()
        if solved is None:
            break
        values = solved[0]
        found, scale = _as_integers(problems[0], values[:rate], unit)
        # a little below what floats say, or their rounding would violate cuts for ever
        asked = Fraction(values[rate] * (1 - _CLOSE)).limit_denominator(_LARGEST_SCALE) * unit * scale
        violated = [
            (problem, cut[1])
            for problem in problems
            if asked > 0 and (cut := find_violated_cut(problem, found, rate=asked))
        ]
        if not violated:
            break
        for problem, nodes in violated:
            _add_cut(program, problem, nodes, rate)
    return found, scale


def _as_integers(problem: Instance, values: Sequence[float], unit: int) -> tuple[Int64Array, int]:
    """Values in units as balanced integers of 1/scale each, at most the bandwidths."""
    fractions = [Fraction(value).limit_denominator(_LARGEST_DENOMINATOR) * unit for value in values]
    scale = lcm(*(value.denominator for value in fractions))
    scale = min(scale, _LARGEST_SCALE, max(1, MAX_BANDWIDTH // int(problem.bandwidths.max())))
    floors = np.array([int(value * scale) for value in fractions], dtype=np.int64)
    floors = np.minimum(np.maximum(floors, 0), problem.bandwidths * scale)
    return balanced_capacities(problem.tails, problem.heads, floors, problem.relays.tolist()), scale
