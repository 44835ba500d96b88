"""Breadth-first broadcast on every direct-connect fabric of the catalogue: right, and within its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import networkx as nx
import pytest

from reference.step_times import t_b
from samples.catalogue_samples import SAMPLES
from samples.table import STEP_BASELINES
from treadle.errors import TreadleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_schedule, bfb_value
from treadle.synthesis.trees import optimum
from treadle.topologies import (
    Topology,
    catalogue,
    has_switches,
    has_uniform_links,
    is_regular,
    unreachable_pair,
)
from treadle.verification.steps.step_check import verify_steps
from treadle.verification.violations import Report

ALLGATHER, REDUCE_SCATTER, ALLREDUCE = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
)
LEFT_OUT = {
    # switches
    "dgx_a100", "dgx_a100_flat", "dgx_b200", "dgx_h100", "gb200_nvl72", "mi250",
    "leaf_spine", "fat_tree", "rail_optimized", "pods", "subset", "trimmed",
    "with_host_bottleneck",
    # unequal links, not connected
    "dgx1_v100", "with_failed_links", "disjoint_copies",
}  # fmt: skip
"""Functions none of whose samples belong here."""


def universe() -> Iterator[Topology]:
    for topologies in SAMPLES.values():
        for topology in topologies:
            if (
                not has_switches(topology)
                and has_uniform_links(topology)
                and topology.n_nodes > 1
                and unreachable_pair(topology) is None
            ):
                yield topology


UNIVERSE = list(universe())


def test_the_universe_leaves_out_no_other_function() -> None:
    served = {topology.name.partition("(")[0] for topology in UNIVERSE}
    assert set(catalogue()) - served == LEFT_OUT


def diameter(topology: Topology) -> int:
    graph = nx.MultiDiGraph(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    return int(nx.diameter(graph))


def judged(topology: Topology, kind: CollectiveKind) -> tuple[Report, Fraction | None]:
    """The verifier's report, and T_B in M/B where it is defined."""
    schedule = bfb_schedule(topology, kind)
    report = verify_steps(topology, on_all_ranks(topology, kind), schedule)
    return report, t_b(topology, schedule) if is_regular(topology) else None


@pytest.mark.parametrize("topology", UNIVERSE, ids=lambda topology: topology.name)
def test_breadth_first_broadcast_is_right_everywhere(topology: Topology) -> None:
    least = Fraction(topology.n_nodes - 1, topology.n_nodes)
    steps = diameter(topology)
    times = {}
    for kind, value in (
        (ALLGATHER, bfb_value(topology)),
        (REDUCE_SCATTER, bfb_reduce_scatter_value(topology)),
    ):
        report, cost = judged(topology, kind)
        assert report.violations == ()
        assert report.n_steps == value.diameter == steps
        assert report.algbw is not None
        times[kind] = 1 / report.algbw
        assert times[kind] == value.seconds_per_byte
        assert report.algbw <= optimum(topology, on_all_ranks(topology, kind)).algbw
        if cost is not None:
            assert cost == value.t_b >= least
            assert value.is_bw_optimal == (cost == least)
    report, cost = judged(topology, ALLREDUCE)
    assert report.violations == ()
    assert report.n_steps == 2 * steps
    assert report.algbw == 1 / sum(times.values())
    assert cost is None or cost >= 2 * least


@pytest.mark.parametrize("name", STEP_BASELINES)
def test_a_step_baseline_is_right_or_refuses(name: str) -> None:
    served = 0
    for topology in (one for one in UNIVERSE if one.n_nodes <= 10):
        for kind in (ALLGATHER, REDUCE_SCATTER, ALLREDUCE):
            collective = on_all_ranks(topology, kind)
            try:
                schedule = STEP_BASELINES[name](topology, collective)
            except TreadleError:
                continue
            served += 1
            report = verify_steps(topology, collective, schedule)
            assert report.violations == (), (topology.name, kind)
            assert report.algbw is not None
            if kind is not ALLREDUCE:
                assert report.algbw <= optimum(topology, collective).algbw
    assert served
