"""Balanced bandwidths below given ones: the highest rate, by a linear program over all cuts as the judge."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog

from treadle.cli.main import main
from treadle.errors import InfeasibleError
from treadle.planning import bound, solve
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees import best_balancing, optimum
from treadle.topologies import Topology, TopologyBuilder, save_topology, trimmed

PHASES = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER)
KINDS = (*PHASES, CollectiveKind.ALLREDUCE)


def random_fabric(seed: int) -> tuple[Topology, int]:
    """Three ranks, then one or two forwarders or switches, with links and bandwidths at random."""
    random = Random(seed)
    builder, relays = TopologyBuilder(f"random {seed}"), random.randint(1, 2)
    names = [f"g{i}" for i in range(3)] + [f"f{i}" for i in range(relays)]
    for name in names[:3]:
        builder.compute(name)
    for name in names[3:]:
        (builder.switch if random.random() < 0.5 else builder.compute)(name)
    for tail in names:
        for head in names:
            if tail != head and random.random() < 0.6:
                builder.link(tail, head, random.randint(1, 4))
    return builder.build(), relays


def collective_on(topology: Topology, kind: CollectiveKind) -> Collective:
    forwarders = tuple(int(node) for node in topology.compute_nodes if node >= 3)
    return Collective(kind, (0, 1, 2), forwarders=forwarders)


def best_rate(topology: Topology, kinds: tuple[CollectiveKind, ...]) -> float:
    """The common rate of the best balanced bandwidths, with every cut a row; 0 if there are none."""
    n, m = topology.n_nodes, topology.n_links
    rows = []
    balance = [
        [*((topology.heads == relay).astype(int) - (topology.tails == relay)), 0] for relay in range(3, n)
    ]
    for kind in kinds:
        outward = kind is CollectiveKind.ALLGATHER
        for size in range(1, n):
            for inside in combinations(range(n), size):
                weight = len({0, 1, 2} & set(inside))
                if weight == 3:
                    continue
                start, end = np.isin(topology.tails, inside), np.isin(topology.heads, inside)
                crossing = start & ~end if outward else end & ~start
                rows.append([*-crossing.astype(int), weight])
    bounds = [*((0, int(b)) for b in topology.bandwidths), (0, None)]
    goal = [0] * m + [-1]
    made = linprog(goal, rows, [0] * len(rows), balance, [0] * len(balance), bounds)
    return float(-made.fun)


@pytest.mark.parametrize("kind", KINDS)
def test_balanced_bandwidths_keep_the_highest_rate(kind: CollectiveKind) -> None:
    better = solved = 0
    kinds = PHASES if kind is CollectiveKind.ALLREDUCE else (kind,)
    for seed in range(40, 60):
        topology, _ = random_fabric(seed)
        collective = collective_on(topology, kind)
        try:
            whole = min(optimum(topology, collective_on(topology, one)).rate for one in kinds)
        except InfeasibleError:
            continue
        best = best_rate(topology, kinds)
        found = best_balancing(topology, collective)
        assert float(found.share * whole) == pytest.approx(best, rel=1e-9)
        assert np.all(found.bandwidths <= topology.bandwidths * found.scale)
        for relay in range(3, topology.n_nodes):
            into, out = (found.bandwidths[ends == relay].sum() for ends in (topology.heads, topology.tails))
            assert into == out
        if not collective.forwarders:
            better += _rate(trimmed(topology), kinds) < found.share * whole
        result = solve(topology, kind.value, ranks="0,1,2", forward=True, trim=True, exact=True)
        assert result.report.is_ok
        solved += 1
        if kind is not CollectiveKind.ALLREDUCE:
            assert result.algbw == 3 * found.share * whole
            assert result.is_optimal
            assert bound(topology, kind.value, ranks="0,1,2", forward=True).algbw == result.algbw
    assert better
    assert solved > 10


@pytest.mark.parametrize("kind", PHASES)
def test_the_optimum_is_what_switches_pass_on_not_what_cuts_let_through(kind: CollectiveKind) -> None:
    """Switches that send more than they receive, or less: the least cut is up to thrice what trees reach."""
    below = 0
    for seed in range(6):
        random, builder = Random(seed), TopologyBuilder(f"star {seed}")
        for name in "abc":
            builder.compute(name)
        for switch in ("s", "t")[: 1 + seed % 2]:
            builder.switch(switch)
            for name in "abc":
                ends = (name, switch) if kind is CollectiveKind.ALLGATHER else (switch, name)
                builder.link(*ends, random.randint(1, 3))
                builder.link(*ends[::-1], random.randint(2, 6))
        topology = builder.build()
        found = bound(topology, kind)
        assert float(found.algbw) == pytest.approx(3 * best_rate(topology, (kind,)), rel=1e-9)
        assert found.bound.is_tight
        assert solve(topology, kind, trim=True, exact=True).is_optimal
        below += found.algbw < optimum(topology, collective_on(topology, kind)).algbw
    assert below > 2


def _rate(topology: Topology, kinds: tuple[CollectiveKind, ...]) -> Fraction:
    try:
        return min(optimum(topology, collective_on(topology, one)).rate for one in kinds)
    except InfeasibleError:
        return Fraction(0)


def asymmetric(parallel: bool) -> Topology:
    """Two boxes of a GPU and a forwarder each; a forwarder gets twice what it can pass on."""
    builder = TopologyBuilder("asymmetric")
    for name in ("a", "b", "c1", "c2"):
        builder.compute(name)
    builder.link("a", "c1", 2)
    if parallel:
        builder.link("c1", "b", 1)
    builder.link("c1", "b", 3)
    builder.link("b", "c2", 5)
    builder.link("c2", "a", 2)
    return builder.build()


def test_an_unbalanced_forwarder_is_called_what_it_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "fabric.json"
    save_topology(path, asymmetric(False))
    argv = ["solve", str(path), "allgather", "--ranks", "a,b", "--forward"]
    assert main(argv) == 3
    said = capsys.readouterr().err
    assert "'c1', no rank and a forwarder (--forward), is not Eulerian: 2 in, 3 out; leave" in said
    assert "(--trim)" in said
    assert "switch" not in said
    assert main([*argv, "--trim"]) == 0
    said = capsys.readouterr().out
    assert "4 B/s of surplus bandwidth were left unused to balance every switch and forwarder" in said
    assert "optimal" in said


def test_schedules_return_to_the_links_that_kept_their_bandwidth() -> None:
    """Of two parallel links the first loses all: what the second carries is not the first one's."""
    for trim_first in (False, True):
        result = solve(asymmetric(trim_first), "allgather", ranks="a,b", forward=True, trim=True, exact=True)
        assert result.is_optimal
        assert result.algbw == 4


def test_the_largest_total_may_cut_ranks_off() -> None:
    """Taking least leaves no way through s; what the rates need goes first."""
    builder = TopologyBuilder("lost way")
    for name in ("a", "b"):
        builder.compute(name)
    for name in ("s", "t"):
        builder.switch(name)
    builder.link("b", "a", 1)
    builder.link("a", "s", 1)
    builder.link("s", "t", 1)
    builder.link("t", "b", 1)
    builder.link("b", "t", 3)
    builder.link("t", "s", 3)
    builder.link("s", "b", 2)
    topology = builder.build()
    result = solve(topology, "allgather", trim=True)
    assert result.is_optimal
