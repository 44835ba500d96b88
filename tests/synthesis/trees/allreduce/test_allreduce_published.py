"""Every row of the tables of allreduce optima, with verified schedules that attain them.

Sources: dissertation B.7 and 4.6; the values of fabrics that the texts do not have are exact optima of the
linear program (B.5), reached by tree packings that were checked by hand or by another program.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from samples.allreduce_fabrics import GB, allreduce, boxes, fano, without_capabilities
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.forest_cost import algbw
from treadle.synthesis.trees import TreeBudget, pack_forest, synthesise
from treadle.synthesis.trees.allreduce import (
    AllreduceSolution,
    Construction,
    allreduce_bound,
    allreduce_forests,
    solve_allreduce,
)
from treadle.synthesis.trees.allreduce.bound import analyse
from treadle.synthesis.trees.allreduce.pair_network import network_of
from treadle.synthesis.trees.allreduce.two_family_lp import solve_two_family_lp
from treadle.topologies import Topology
from treadle.topologies.catalogue.graphs import hypercube, ring, star, torus
from treadle.topologies.catalogue.platforms import dgx_a100_flat, dgx_h100, gb200_nvl72, mi250
from treadle.verification.schedules import verify


def solved(topology: Topology) -> AllreduceSolution:
    """Solve, and verify the schedule, its claim and the certificate."""
    solution = solve_allreduce(topology, allreduce(topology), pack=pack_forest)
    report = verify(
        topology,
        allreduce(topology),
        solution.schedule,
        claimed_algbw=solution.algbw,
        claimed_optimal_algbw=solution.bound.algbw,
        certificate=solution.bound.certificate,
    )
    assert not report.violations, report.violations
    return solution


@pytest.mark.parametrize(
    ("topology", "optimum"),
    [
        (dgx_a100_flat(2), Fraction(520, 3) * GB),
        (dgx_a100_flat(4), Fraction(400, 3) * GB),
        (dgx_a100_flat(8), Fraction(800, 7) * GB),
        (torus(8, 8), Fraction(128, 63)),
        (hypercube(6), Fraction(64, 21)),
        (ring(8), Fraction(8, 7)),
    ],
    ids=["A100 x2", "A100 x4", "A100 x8", "torus", "6-cube", "ring"],
)
def test_phases_are_optimal_on_fabrics_with_alike_ranks(topology: Topology, optimum: Fraction) -> None:
    rs_ag = synthesise(topology, allreduce(topology), budget=TreeBudget(exact=True))
    solution = solve_allreduce(topology, allreduce(topology), rs_ag=rs_ag.schedule, pack=pack_forest)
    assert solution.construction is Construction.PHASES
    assert solution.schedule == rs_ag.schedule
    assert solution.algbw == solution.bound.algbw == optimum
    assert solution.bound.is_attained


H100 = [
    (1, {}, "1800/7"),
    (1, {"nvls": True}, "400"),
    (2, {}, "800/3"),
    (2, {"nvls": True}, "400"),
    (2, {"sharp": True}, "275"),
    (2, {"nvls": True, "sharp": True}, "400"),
    (4, {}, "8000/31"),
    (4, {"nvls": True}, "800/3"),
    (4, {"nvls": True, "sharp": True}, "400"),
    (16, {"nvls": True, "sharp": True}, "400"),
]


def test_one_asker_for_all_pays_half() -> None:
    """One box with NVLink SHARP: its own data and what it stores for all cross the asker's link both ways."""
    topology = dgx_h100(1, nvls=True)
    number = {topology.link_name(e): e for e in range(topology.n_links)}
    up = [number[f"box0.gpu{i}->box0.nvswitch"] for i in range(8)]
    down = [number[f"box0.nvswitch->box0.gpu{i}"] for i in range(8)]
    forests = []
    for direction, first, copies in (
        (Direction.REDUCE, (up[1], down[0]), up),
        (Direction.BROADCAST, (up[0], down[1]), down),
    ):
        paths = {1: [(first, 1)], **{v: [((copies[v],), 1)] for v in range(2, 8)}}
        forests.append(forest_from_trees(direction, 8, [TreeSpec(0, 1, [-1] + [0] * 7, paths)]))
    alone = ForestSchedule(CollectiveKind.ALLREDUCE, *forests)
    report = verify(topology, allreduce(topology), alone)
    assert report.algbw == algbw(topology, alone) == 225 * GB
    by_itself = replace(topology, turns_round=topology.multicast)
    assert verify(by_itself, allreduce(topology), alone).algbw == algbw(by_itself, alone) == 450 * GB


def test_sharp_in_one_box_would_reach_the_link() -> None:
    """A switch that turns sums round by itself: no rank's link carries anything twice."""
    topology = dgx_h100(1, nvls=True)
    solution = solved(replace(topology, turns_round=topology.multicast))
    assert solution.algbw == solution.bound.algbw == 450 * GB


def test_a_rack_of_72() -> None:
    solution = solved(gb200_nvl72(1, nvls=True))
    assert solution.algbw == solution.bound.algbw == Fraction(900 * 72, 73) * GB
    assert solution.bound.is_attained
    assert set(solution.schedule.root_multiplicity.tolist()) == {1}


@pytest.mark.parametrize(("n_boxes", "capabilities", "optimum"), H100)
def test_h100_boxes_in_network(n_boxes: int, capabilities: dict[str, bool], optimum: str) -> None:
    topology = dgx_h100(n_boxes, **capabilities)
    solution = solved(topology)
    assert solution.algbw == solution.bound.algbw == Fraction(optimum) * GB
    assert solution.bound.is_attained
    # the trees fit few units, so that they can be executed
    assert solution.schedule.total_units <= 512
    # what only cuts can tell is kept in the plan: both are proved without a solver
    assert solution.bound.certificate.bound(topology, allreduce(topology)) == solution.bound.algbw


@pytest.mark.parametrize(
    ("names", "optimum"),
    [((), "520/3"), (("ib",), "175"), (("nvswitch0", "nvswitch1"), "200")],
)
def test_a100_boxes_in_network(names: tuple[str, ...], optimum: str) -> None:
    topology = _capable(boxes([8, 8]), names)
    solution = solved(topology)
    assert solution.algbw == solution.bound.algbw == Fraction(optimum) * GB


def _capable(topology: Topology, names: tuple[str, ...]) -> Topology:
    flags = np.array([name in names for name in topology.node_names])
    return replace(topology, multicast=flags, aggregation=flags, turns_round=flags)


@pytest.mark.parametrize(("names", "optimum"), [(("nvswitch0", "nvswitch1"), "200"), (("nvswitch0",), "175")])
def test_a100_boxes_whose_switches_are_asked(names: tuple[str, ...], optimum: str) -> None:
    topology = _capable(boxes([8, 8]), names)
    solution = solved(replace(topology, turns_round=topology.multicast & False))
    assert solution.algbw == solution.bound.algbw == Fraction(optimum) * GB


def test_one_capability_alone_gains_nothing_at_a_star() -> None:
    topology = dgx_h100(1, nvls=True)
    nothing = topology.multicast & False
    for alone in (replace(topology, multicast=nothing), replace(topology, aggregation=nothing)):
        bound = allreduce_bound(alone, allreduce(alone))
        assert bound.algbw == Fraction(1800, 7) * GB
        assert bound.is_attained


def test_relays_are_not_aggregators() -> None:
    """Without conservation at the switch a star of 8 at 450 GB/s would claim 450."""
    topology = star(8, bandwidth=450 * GB)
    hub_is_switch = len(topology.switches) == 1
    optimum = Fraction(1800, 7) if hub_is_switch else Fraction(450)
    assert allreduce_bound(topology, allreduce(topology)).algbw == optimum * GB


def test_the_cut_bound_is_not_tight_on_the_fano_fabric(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = fano()
    assert solve_two_family_lp(network_of(topology, allreduce(topology))).rate == 4
    found = analyse(topology, allreduce(topology))
    bound = found.bound
    assert bound.algbw == bound.certificate.bound(topology, allreduce(topology)) == Fraction(7, 2)
    assert bound.is_attained
    assert found.packing is not None
    assert found.packing.is_priced
    assert found.packing.rate == Fraction(7, 2)
    monkeypatch.setattr(allreduce_forests, "analyse", lambda *_: found)  # once is enough
    solution = solve_allreduce(topology, allreduce(topology))
    assert (solution.construction, solution.algbw) == (Construction.TREES, Fraction(7, 2))
    report = verify(topology, allreduce(topology), solution.schedule, claimed_algbw=solution.algbw)
    assert not report.violations
    plain = without_capabilities(topology)
    assert allreduce_bound(plain, allreduce(plain)).algbw == Fraction(5, 2)


def test_eight_boxes_of_mi250() -> None:
    """128 GPUs: the bound alone."""
    topology = mi250(8)
    bound = allreduce_bound(topology, allreduce(topology))
    assert bound.algbw == Fraction(1024, 7) * GB
    assert bound.is_attained


def test_mi250_schedule_outruns_the_phases() -> None:
    topology = mi250(2, 8)
    solution = solved(topology)
    assert solution.construction is Construction.TREES
    assert algbw(topology, solution.schedule) == 128 * GB
