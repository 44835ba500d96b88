"""Rows that commands share: problems, bounds, schedules and verification, of odd fabrics and by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from harness.snapshots import check
from treadle.errors import FormatError
from treadle.options.rows import integers, seconds
from treadle.render.files import describe_gap
from treadle.render.problems import (
    bound_rows,
    describe_certificate,
    group_rows,
    mesh_rows,
    problem_rows,
    rate_rows,
    saturated_links,
    verified_row,
)
from treadle.render.quantities import Rates
from treadle.render.solving import bound_result_rows, solve_rows
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate, DualCertificate
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.units import format_fraction
from treadle.verification.violations import Report, Violation, ViolationKind

GB = 10**9


def odd_fabric() -> Topology:
    """Ranks a, b, c, d, of which d hangs on a by a thin link; one switch."""
    builder = TopologyBuilder("odd")
    for name in "abcd":
        builder.compute(name)
    builder.switch("sw")
    for name, speed in (("a", 7), ("b", 5), ("c", 3)):
        builder.duplex(name, "sw", speed * GB)
    builder.duplex("a", "d", 2 * GB)
    return builder.build()


FABRIC = odd_fabric()


def collective(kind: str = "allgather", **fields: Any) -> Collective:
    return Collective(CollectiveKind(kind), **({"ranks": (0, 1, 2, 3)} | fields))


def test_problems() -> None:
    posed = [
        collective(),
        collective("broadcast", root=2, ranks=(3, 1, 0)),
        collective(weights=(3, 1, 2, 2)),
        collective(ranks=(0, 2), forwarders=(1, 3)),
        collective("reduce", root=1, groups=((0, 1), (2, 3)), ranks_forward=True),
    ]
    check("problems", *(problem_rows(FABRIC, one) for one in posed))


def test_meshes() -> None:
    meshes = (("dp=3,tp=2", "tp"), ("dp=3,tp=2", "dp,tp"), (None, "tp"), ("dp=3,tp=2", None))
    check("meshes", *(mesh_rows(mesh, axes) for mesh, axes in meshes))


def bound(algbw: Fraction, *, is_tight: bool = True, model: str = "") -> Any:
    return SimpleNamespace(algbw=algbw, is_tight=is_tight, model=model, certificate=BottleneckCut((3,)))


def test_bounds() -> None:
    rate, loose = Fraction(20 * GB, 3), bound(Fraction(20 * GB, 3), is_tight=False, model="of hosts")
    model = "allreduce with in-network multicast and aggregation, for ranks that ask"
    views = [bound(rate), loose, bound(rate, model=model)]
    check("bounds", *(bound_rows(FABRIC, collective(), one, Rates()) for one in views))


@pytest.mark.parametrize(
    ("posed", "nodes", "said"),
    [
        # allgather: the shards within must leave; told from the side of fewer ranks
        (collective(), (3,), "1 of 4 shards must leave {d} over 2 GB/s"),
        (collective(), (0, 1, 2, 4), "3 of 4 shards must enter {d} over 6 GB/s"),
        (collective("reduce-scatter"), (3,), "1 of 4 shards must enter {d} over 2 GB/s"),
        (collective("reduce-scatter"), (0, 1, 2, 4), "3 of 4 shards must leave {d} over 6 GB/s"),
        (collective(weights=(3, 1, 2, 5)), (0, 3), "8 of 11 shards must leave {a, d} over 5.82 GB/s"),
        # as many ranks on both sides: the one of fewer nodes
        (collective(), (1, 2, 4), "2 of 4 shards must enter {a, d} over 4 GB/s"),
        (collective("broadcast", root=0), (0, 1, 2, 4), "all data must enter {d} over 8 GB/s"),
    ],
)
def test_cuts_are_described_from_the_side_of_fewer_ranks(
    posed: Collective, nodes: tuple[int, ...], said: str
) -> None:
    assert describe_certificate(FABRIC, posed, BottleneckCut(nodes), Fraction(8 * GB)) == f"cut: {said}"


def test_other_certificates() -> None:
    def said(certificate: Any) -> str:
        return describe_certificate(FABRIC, collective("allreduce"), certificate, Fraction(GB))

    prices = [Fraction(0)] * FABRIC.n_links
    links = {FABRIC.link_name(link): link for link in range(FABRIC.n_links)}
    prices[links["d->a"]] = Fraction(1, 3)
    assert said(DualCertificate(tuple(prices))) == "link d -> a (2 GB/s)"
    cuts = CutCombinationCertificate((((3,), Fraction(1, 2)), ((1,), Fraction(2))), (((2,), Fraction(3, 4)),))
    assert said(cuts) == "3 cuts together; the heaviest is {b}"
    assert said(CutCombinationCertificate((), (((0, 1, 2, 4), Fraction(1)),))) == (
        "1 cut together; the heaviest is {d}"
    )
    assert said(SimpleNamespace(kind="of others")) == "of others"


def test_rates_of_pairs() -> None:
    found = treadle.bound("ring(3, bandwidth='4GB/s')", "alltoall").rate
    assert found is not None
    late = replace(found, exact=None, rate=3.0 * GB, is_late=True)
    slow = treadle.bound("ring:3", "alltoall").rate
    assert slow is not None
    views = [(found, Rates()), (late, Rates()), (late, Rates("Gbit/s")), (slow, Rates())]
    check(
        "rates",
        *(rate_rows(one, rates, is_alone=True) for one, rates in views),
        rate_rows(found, Rates(), is_alone=False),
    )


def alone(rate: Fraction, groups: int, *, is_exact: bool = True) -> Any:
    return SimpleNamespace(algbw=rate, groups=tuple(range(groups)), is_exact=is_exact)


def shared(lower: Fraction, *others: Any, rs_ag: Fraction | None = None) -> Any:
    upper = Fraction(10 * GB, 3)
    found = {"lower": lower, "upper": upper, "is_exact": lower == upper, "rs_ag": rs_ag}
    return SimpleNamespace(**found, alone=others, bottleneck=(0, 3))


def test_groups() -> None:
    """Brackets of all widths; groups that reach more when they run alone."""
    rate, ring = Fraction(10 * GB, 3), treadle.parse("ring:4")
    posed = Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3), groups=((0, 1), (2, 3)))
    four = [alone(Fraction(number * GB), number) for number in (1, 2, 3, 4)]
    views = [
        shared(rate, alone(Fraction(9 * GB), 2), rs_ag=rate),
        shared(rate * 99999 / 10**5, alone(rate, 1, is_exact=False), four[1]),
        shared(rate * 9999 / 10**4, *four[:3], rs_ag=Fraction(3 * GB)),
        shared(rate / 2, *four),
    ]
    check("groups", *(group_rows(ring, posed, one, Rates()) for one in views))


def solved(fabric: str | Topology = "ring:3", kind: str = "allgather", **options: Any) -> Any:
    return replace(treadle.solve(fabric, kind, **options), seconds={"trees": 2.0, "total": 2.5, "few": 0.001})


def test_schedules_and_their_packing() -> None:
    found = solved(FABRIC)
    far = replace(found.bound, algbw=found.plan.algbw * 8 / 5)
    below = replace(found, report=replace(found.report, bound=far.algbw))
    attempts = (SimpleNamespace(packer="first", outcome="too slow"),)
    checked = replace(found.report, height_max=5)
    packed = replace(found, packer="mine", packing=attempts, report=checked, height_bound=3, decomposition="")
    traffic = SimpleNamespace(traffic_before=8.0, traffic_after=6.0)
    results = [
        found,
        replace(below, bound=far),
        replace(below, bound=replace(far, is_tight=False)),
        replace(below, bound=None),
        packed,
        replace(packed, report=replace(checked, height_is_exact=False), decomposition="of 2 cuts"),
        replace(packed, packer=None, height_bound=None),
        replace(found, traffic=traffic, notes=("one", "two")),
    ]
    check("schedules", *(solve_rows(one, explain=True, path="x.plan") for one in results))


SHAPES = [
    ("ring:3", "allgather", "ring"),
    ("ring:3", "allgather", None),
    ("torus:3,2", "alltoall", "pipelined"),
    ("torus:3,2", "allreduce", "bfb"),
    ("dgx_a100:2", "alltoall", None),
    ("dgx_h100:32", "allgather", None),
    ("ring:5", "reduce-scatter", "bfb"),
]


def test_shapes_of_schedules() -> None:
    check("shapes", *(solve_rows(solved(fabric, kind, algorithm=name)) for fabric, kind, name in SHAPES))


def test_lower_bounds_of_sizes() -> None:
    found = treadle.bound("ring(3, bandwidth='4GB/s')", "allgather", sizes="1K,3M", cost_model="reference")
    check("size_bounds", bound_result_rows(replace(found, seconds={"total": 1.0})))


def test_saturated_links_are_those_that_are_always_busy() -> None:
    """Broadcast from a over the thin link to d: one tree, whose slowest links set its rate."""
    found = solved(FABRIC, "broadcast", root=0)
    links = {FABRIC.link_name(link): link for link in range(FABRIC.n_links)}
    assert found.plan.algbw == 2 * GB
    assert saturated_links(found.plan) == [links["a->d"]]


def checked(**fields: Any) -> Report:
    values: dict[str, Any] = {
        "violations": (),
        "n_violations": 0,
        "algbw": Fraction(1),
        "bound": None,
        "height_max": 2,
    }
    return Report(**(values | fields))


def test_verification() -> None:
    wrong = tuple(Violation(next(iter(ViolationKind)), f"message {number}") for number in range(22))
    reports = [checked(), checked(n_steps=0), checked(n_layers=0), checked(n_layers=1, n_steps=3)]
    reports += [checked(violations=wrong[:count], n_violations=count) for count in (1, 20)]
    reports.append(checked(violations=wrong, n_violations=30))
    check("verification", *([verified_row(one)] for one in reports))


def test_shortfalls_of_who_sends_point_to_point() -> None:
    forest: Any = SimpleNamespace(algbw=Fraction(20 * GB, 3), entries=[SimpleNamespace(schedule=None)])
    start = (
        "x sends point to point where the plan leaves copies or reductions to switches, so the plan's "
        "6.67 GB/s (20/3) do not hold for it; "
    )
    lacking: Any = SimpleNamespace(algbw=None)
    assert describe_gap(forest, lacking, "x") == f"{start}by how much is not known"
    lacking = SimpleNamespace(algbw=Fraction(5 * GB, 3))
    end = "reach 1.67 GB/s (5/3), each transfer on a shortest path"
    assert describe_gap(forest, lacking, "x") == f"{start}these trees {end}"
    steps = solved("ring:5", algorithm="bfb").plan.entries
    mixed: Any = SimpleNamespace(algbw=forest.algbw, entries=[*forest.entries, *steps])
    assert describe_gap(mixed, lacking, "x") == f"{start}transfers that no step delays {end}"


def test_rates_in_a_unit() -> None:
    third = Fraction(1040 * GB, 3)
    assert (Rates().column, Rates("Gbit/s").column) == ("GB/s", "Gbit/s")
    assert Rates().number(2.5 * GB, 3) == "2.500"
    assert Rates("Gbit/s").number(2.5 * GB, 1) == "20.0"
    assert Rates("Gbit/s").exact(third) == "2773.33 Gbit/s (8320/3)"
    assert Rates().link(3_125_000_001) == "3.125000001 GB/s"
    assert Rates("Gbit/s").link(3_125_000_001) == "25 Gbit/s"
    assert Rates("Gbit/s").link(3_125_170_000) == "25.0014 Gbit/s"
    for value, said in (
        (Fraction(GB, 8), "125 MB/s"),
        (Fraction(9 * GB, 8), "1.12 GB/s (9/8)"),
        (Fraction(GB * 10**4, 9999), "1 GB/s (10000/9999)"),
        (Fraction(GB * 10**4 + GB, 10**4), "1 GB/s"),
    ):
        assert Rates().exact(value) == said


def test_numbers_that_people_type() -> None:
    assert seconds("1500ms", "") == 1.5
    assert integers("2,-1,07", "x") == (2, -1, 7)
    assert format_fraction(1 - Fraction(9999, 10000)) == "0.01%"
    for call, said in (
        (lambda: seconds("0s", "--time-limit"), "--time-limit '0s': expected more than 0"),
        (lambda: integers("2,,1", "--w"), "--w: expected integers with commas between, as in 2,1,1"),
        (
            lambda: integers(",".join("1" * (2**16 + 2)), "--w"),
            "--w: expected integers with commas between, as in 2,1,1",
        ),
    ):
        with pytest.raises(FormatError) as caught:
            call()
        assert str(caught.value) == said
    assert len(integers(",".join("1" * (2**16 + 1)), "w")) == 2**16 + 1
