"""Parts of the rate's certificates: caps of hosts, lengths, trees of paths, flows; by hand or definition."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.math.symmetry import orbits
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate import pdhg, spreading
from treadle.synthesis.alltoall.rate.automorphisms import proposed_automorphisms
from treadle.synthesis.alltoall.rate.certificate import RateResult
from treadle.synthesis.alltoall.rate.fleischer import fleischer_rate
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow, check_flow
from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import symmetry_of
from treadle.synthesis.alltoall.rate.host_caps import folded, limited_by_hosts, unfolded
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.synthesis.alltoall.rate.remaining_rate import flow_of_routes
from treadle.synthesis.alltoall.rate.spreading import sender_moves
from treadle.topologies import parse, without_failures
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder


def line(*caps: int) -> Topology:
    """a to b of 4 B/s, b to c of 2, and back of 3 and 1; nodes may have injection caps."""
    builder = TopologyBuilder("line")
    for name, cap in zip("abc", caps or (0, 0, 0), strict=True):
        builder.compute(name, injection_bytes_per_s=cap)
    for ends, width in (("ab", 4), ("bc", 2), ("ba", 3), ("cb", 1)):
        builder.link(ends[0], ends[1], width)
    return builder.build()


def collective(ranks: Sequence[int] = (2, 0, 1)) -> Collective:
    """Ranks c, a, b: c has 1 for a, a has 2 for c and 3 for b, b has 1 for c."""
    demands = Demands(np.array([[5, 1, 0], [2, 0, 3], [1, 0, 0]]))
    return Collective(CollectiveKind.ALLTOALL, tuple(ranks), demands=demands)


def flow() -> ConcurrentFlow:
    """The only one: a to b, b to c, b to a, c to b."""
    return ConcurrentFlow(np.array([[0, 0, 1, 1], [5, 2, 0, 0], [0, 1, 0, 0]], dtype=np.float64))


def result(topology: Topology, **changes: object) -> RateResult:
    found = RateResult(
        topology=topology,
        collective=collective(),
        rate=2 / 3,
        upper=Fraction(2, 3),
        exact=Fraction(2, 3),
        loads=flow().loads,
        stored_flow=flow(),
        certificate=FlowDualCertificate(np.array([0, 1, 0, 0])),
        method="hand",
        seconds=0.0,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def test_flows_that_are_none() -> None:
    with pytest.raises(ScheduleError, match=r"^flow: expected shape \(3, 4\) on line, found \(2, 4\)$"):
        check_flow(line(), collective(), ConcurrentFlow(np.zeros((2, 4))))
    looped = from_arcs("looped", [0, 1, 1, 2], [1, 1, 2, 0], n=3)
    with pytest.raises(ScheduleError, match=r"^flow: a self-loop carries data$"):
        check_flow(looped, collective(), ConcurrentFlow(np.ones((3, 4))))
    for wrong in (np.full((1, 1), np.nan), np.full((1, 1), np.inf), np.full((1, 1), -1e-30)):
        with pytest.raises(ScheduleError, match=r"^flow: expected finite numbers of at least 0$"):
            ConcurrentFlow(wrong)
    for shape, kind in (((3,), "float64"), ((2, 2), "float32")):
        message = f"flow: expected a matrix of float64, found {kind}, shape {shape}"
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            ConcurrentFlow(np.zeros(shape, dtype=kind))
    assert flow() == flow()
    assert hash(flow()) == hash(flow())
    assert flow() != ConcurrentFlow(np.zeros((3, 4)))
    assert flow() != 3


def test_a_rate_beside_caps_of_hosts_whose_cards_forward() -> None:
    """Links allow 2/3; a cap of 10 on a allows 2, one of 2 allows 2/5, one of 3 allows 3/5."""
    free = limited_by_hosts(result(line()), line(10, 0, 0))
    assert (free.upper, free.exact, free.rate) == (Fraction(2, 3), Fraction(2, 3), 2 / 3)
    assert free.certificate.lengths.tolist() == [0, 1, 0, 0]
    assert free.topology == line(10, 0, 0)
    tight = limited_by_hosts(result(line()), line(2, 0, 0))
    assert (tight.upper, tight.exact, tight.rate) == (Fraction(2, 5), Fraction(2, 5), 0.4)
    assert tight.certificate.hosts.tolist() == [[0, 1]]
    # without an exact rate a flow that comes up to the cap proves it, one that does not proves nothing
    near = result(line(), rate=0.5, exact=None)
    assert limited_by_hosts(near, line(2, 0, 0)).exact == Fraction(2, 5)
    between = limited_by_hosts(near, line(3, 0, 0))
    assert (between.exact, between.upper, between.rate) == (None, Fraction(3, 5), 0.5)
    assert between.certificate.hosts.tolist() == [[0, 1]]
    uncapped = limited_by_hosts(near, line())
    assert (uncapped.exact, uncapped.upper, uncapped.rate) == (None, Fraction(2, 3), 0.5)


def test_caps_become_links_and_back() -> None:
    """Of each host the way in and the way out, behind the links of the fabric."""
    capped = line(7, 0, 9)
    found = result(
        capped, certificate=FlowDualCertificate(np.array([0, 1, 0, 0]), np.array([[2, 3], [0, 5]]))
    )
    whole = unfolded(found)
    assert whole is not None
    assert whole.topology.n_links == 8
    assert whole.certificate.lengths.tolist() == [0, 1, 0, 0, 2, 3, 0, 5]
    # into a, out of a, into c, out of c: for c's, a's and b's own data
    assert whole.flow.by_source[:, 4:].tolist() == [[1, 0, 0, 1], [0, 5, 2, 0], [0, 0, 1, 0]]
    assert whole.loads.tolist() == [5, 3, 1, 1, 1, 5, 3, 1]
    again = folded(whole, capped)
    assert again.flow == found.flow
    assert again.loads.tolist() == found.loads.tolist()
    assert again.certificate.lengths.tolist() == [0, 1, 0, 0]
    assert again.certificate.hosts.tolist() == [[2, 3], [0, 5]]
    bare = unfolded(result(capped))
    assert bare is not None
    assert bare.certificate.lengths.tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert unfolded(result(line())) is None
    cards = FlowDualCertificate(np.array([0, 1, 0, 0]), np.zeros((2, 2), dtype=np.int64), cards_forward=True)
    assert unfolded(result(capped, certificate=cards)) is None


def test_routes_as_a_flow_with_even_lengths() -> None:
    """Two chunks a unit of demand; links of equal bandwidth have equal lengths, narrow ones long ones."""
    paths = [(0, 1, 2, 0, [3, 2]), (1, 0, 4, 0, [0, 1]), (1, 2, 6, 0, [0]), (2, 0, 2, 0, [1])]
    found = flow_of_routes(line(), collective(), routes_from_paths(3, 2, paths))
    assert found.flow == flow()
    assert found.rate == pytest.approx(2 / 3)
    assert found.certificate.lengths.tolist() == [3, 6, 4, 12]
    # 3 * 4 + 6 * 2 + 4 * 3 + 12 over 1 * 16 + 2 * 9 + 3 * 3 + 1 * 6
    assert found.upper == Fraction(48, 49)
    assert (found.exact, found.method, found.seconds) == (None, "routes", 0.0)


@pytest.mark.parametrize(
    ("expression", "count", "n_orbits"),
    [
        ("ring(5)", 2, 1),
        ("circulant(7, 1, 2)", 2, 1),
        ("complete(4)", 2, 1),
        ("complete_bipartite(2, 3)", 3, 2),
        ("complete_bipartite(3, 3)", 5, 1),
        ("torus(3, 4)", 6, 1),
        ("torus(3, 3)", 7, 1),
        ("mesh(3, 4)", 2, 4),
        ("mesh(3, 3)", 3, 3),
        ("hypercube(3)", 5, 1),
        ("kautz(2, 1)", 2, 1),
        ("de_bruijn(3, 2)", 2, 2),
        ("cartesian_product(ring(3), ring(4))", 4, 1),
    ],
)
def test_automorphisms_that_names_suggest(expression: str, count: int, n_orbits: int) -> None:
    fabric = parse(expression)
    found = proposed_automorphisms(fabric)
    ends = sorted(zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True))
    for one in found:
        assert sorted(zip(one[fabric.tails].tolist(), one[fabric.heads].tolist(), strict=True)) == ends
    of_ranks = orbits(fabric.n_nodes, found)[fabric.compute_nodes]
    assert (len(found), len(set(of_ranks.tolist()))) == (count, n_orbits)


def test_flows_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three senders over four links: twelve cells."""
    instance = flow_instance(line(), collective())
    for module, name in ((pdhg, "MOST_CELLS"), (spreading, "_MAX_ENTRIES")):
        monkeypatch.setattr(module, name, 12)
    assert pdhg.pdhg_rate(instance, gap=0.01).rate == pytest.approx(2 / 3, rel=0.01)
    assert sender_moves(instance, symmetry_of(instance)).tolist() == [[0, 1, 2, 3]] * 3
    for module, name in ((pdhg, "MOST_CELLS"), (spreading, "_MAX_ENTRIES")):
        monkeypatch.setattr(module, name, 11)
    message = (
        "line: flows of 3 sources over 4 links do not fit; expected at most 11 cells; fewer ranks, or a "
        "fabric with more symmetry"
    )
    with pytest.raises(ScheduleError, match=f"^{message}$"):
        pdhg.pdhg_rate(instance)
    message = "line: flows of 3 senders over 4 links do not fit; use the representatives' flows"
    with pytest.raises(ScheduleError, match=f"^{message}$"):
        sender_moves(instance, symmetry_of(instance))


@pytest.mark.parametrize("value", [1.0, -0.001, float("nan"), 0.0009])
def test_gaps_out_of_range(value: float) -> None:
    if value != 0.0009:
        with pytest.raises(ScheduleError) as caught:
            optimal_rate(line(), collective(), gap=value)
        assert str(caught.value) == f"gap {value}: expected a number from 0 to below 1, such as 0.001"
    with pytest.raises(ScheduleError) as caught:
        fleischer_rate(line(), collective(), epsilon=value)
    assert str(caught.value) == f"fleischer: epsilon {value}, expected from 0.001 to below 1"


def test_gaps_at_their_limits() -> None:
    assert optimal_rate(line(), collective(), gap=0.0).exact == Fraction(2, 3)
    assert fleischer_rate(line(), collective(), epsilon=0.999).rate > 0


def test_the_cut_of_a_damaged_box_is_the_bound() -> None:
    """First-order lengths leave a gap of 1e-7 here, and of 7e-4 on racks of 72."""
    fabric = without_failures(parse("dgx_h100(8)"), ["box0.gpu5"])
    found = optimal_rate(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))
    assert found.upper == Fraction(350 * 10**9, 7 * 56)
    assert found.gap < 1e-12
    assert set(found.certificate.lengths.tolist()) == {0, 1}
