"""What reports of single schedules say, line by line, of odd fabrics and of results by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from treadle.cli.output import Output
from treadle.cli.solving import report
from treadle.errors import FormatError
from treadle.options.rows import integers, seconds
from treadle.render.quantities import Rates, shortfall
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.allreduce_witness import CutCombinationWitness, LengthWitness
from treadle.schedules.witness import CutWitness
from treadle.topologies.topology import Topology, TopologyBuilder
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


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    """Lines that a call prints."""

    def told(function: Any, *arguments: Any, output: Output | None = None) -> list[str]:
        capsys.readouterr()
        function(output or Output(), *arguments)
        return capsys.readouterr().out.splitlines()

    return told


@pytest.mark.parametrize(
    ("posed", "said"),
    [
        (collective(), "allgather, 4 ranks"),
        (collective("broadcast", root=2, ranks=(3, 1, 0)), "broadcast, 3 ranks, root a"),
        (collective(weights=(3, 1, 2, 2)), "allgather, 4 ranks, shards of unequal size"),
        (collective(ranks=(0, 2), forwarders=(1,)), "allgather, 2 ranks, 1 forwarder"),
        (collective(ranks=(0, 2), forwarders=(1, 3)), "allgather, 2 ranks, 2 forwarders"),
        (collective(groups=((0, 1), (2, 3))), "allgather, 4 ranks in 2 groups of 2"),
        (
            collective("reduce", root=1, groups=((0, 1), (2, 3)), ranks_forward=True),
            "reduce, 4 ranks in 2 groups of 2, root 1 of each, ranks of other groups forward",
        ),
    ],
)
def test_the_problem_in_two_lines(posed: Collective, said: str, lines: Any) -> None:
    assert lines(report.print_problem, FABRIC, posed) == [
        "fabric      odd: 4 compute nodes, 1 switch, 8 links",
        f"collective  {said}",
    ]


def bound(algbw: Fraction, *, is_tight: bool = True, model: str = "") -> Any:
    return SimpleNamespace(algbw=algbw, is_tight=is_tight, model=model, witness=CutWitness((3,)))


def test_bounds_say_whether_they_are_attained(lines: Any) -> None:
    rate = Fraction(20 * GB, 3)
    witness = "witness     cut: 1 of 4 shards must leave d (1 node) through 1.67 GB/s"
    assert lines(report.print_bound, FABRIC, collective(), bound(rate)) == [
        "optimum     6.67 GB/s (20/3) asymptotic algbw, 5 GB/s busbw, exact",
        witness,
    ]
    told = lines(report.print_bound, FABRIC, collective(), bound(rate, is_tight=False, model="hosts forward"))
    assert told == [
        "bound       6.67 GB/s (20/3) asymptotic algbw, 5 GB/s busbw, an upper bound, not known to be "
        "attained; hosts forward",
        witness,
    ]


@pytest.mark.parametrize(
    ("posed", "nodes", "said"),
    [
        # allgather: the shards within must leave; told from the side of fewer ranks
        (collective(), (3,), "cut: 1 of 4 shards must leave d (1 node) through 2 GB/s"),
        (collective(), (0, 1, 2, 4), "cut: 3 of 4 shards must enter d (1 node) through 6 GB/s"),
        (collective("reduce-scatter"), (3,), "cut: 1 of 4 shards must enter d (1 node) through 2 GB/s"),
        (
            collective("reduce-scatter"),
            (0, 1, 2, 4),
            "cut: 3 of 4 shards must leave d (1 node) through 6 GB/s",
        ),
        (
            collective(weights=(3, 1, 2, 5)),
            (0, 3),
            "cut: 8 of 11 shards must leave a, d (2 nodes) through 5.82 GB/s",
        ),
        # as many ranks on both sides: the one of fewer nodes
        (collective(), (1, 2, 4), "cut: 2 of 4 shards must enter a, d (2 nodes) through 4 GB/s"),
        (
            collective("broadcast", root=0),
            (0, 1, 2, 4),
            "cut: all data must enter d (1 node) through 8 GB/s",
        ),
    ],
)
def test_cuts_are_told_from_the_side_of_fewer_ranks(
    posed: Collective, nodes: tuple[int, ...], said: str
) -> None:
    assert report.describe_witness(FABRIC, posed, CutWitness(nodes), Fraction(8 * GB)) == said


def test_other_witnesses_in_a_line() -> None:
    def said(witness: Any) -> str:
        return report.describe_witness(FABRIC, collective("allreduce"), witness, Fraction(GB))

    prices = [Fraction(0)] * FABRIC.n_links
    links = {FABRIC.link_name(link): link for link in range(FABRIC.n_links)}
    prices[links["d->a"]] = Fraction(1, 3)
    assert said(LengthWitness(tuple(prices))) == "link prices; scarce are d->a (link of 2 GB/s)"
    cuts = CutCombinationWitness((((3,), Fraction(1, 2)), ((1,), Fraction(2))), (((2,), Fraction(3, 4)),))
    assert said(cuts) == "3 cuts together; the heaviest is b (1 node)"
    assert said(CutCombinationWitness((), (((0, 1, 2, 4), Fraction(1)),))) == (
        "1 cut together; the heaviest is d (1 node)"
    )
    assert said(CutCombinationWitness((), ())) == "0 cuts together; the heaviest is none"
    assert said(SimpleNamespace(kind="of others")) == "of others"


def pair_rate(**fields: Any) -> Any:
    """An all-to-all's optimum; a uniform fabric of 3 GB/s links, where nothing else is said."""
    values: dict[str, Any] = {
        "topology": treadle.parse("ring(4, bandwidth='3GB/s')"),
        "collective": collective("alltoall"),
        "rate": 1.5 * GB,
        "algbw": 6 * GB,
        "exact": Fraction(1, 2) * 3 * GB,
        "upper": 1.5 * GB,
        "gap": 0.0,
        "is_late": False,
    }
    return SimpleNamespace(**(values | fields))


def test_rates_of_pairs(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "uniform_bandwidth", lambda found: 3 * GB)
    assert lines(report.print_pair_rate, pair_rate()) == [
        "rate        1.5 GB/s for each pair at once, exact",
        "            f = 0.5 of a link (1/2), 1/f = 2",
    ]
    late = pair_rate(exact=None, upper=1.6 * GB, gap=0.0625, is_late=True, rate=1.2 * GB)
    assert lines(report.print_pair_rate, late) == [
        "rate        1.2 GB/s for each pair at once",
        "            f = 0.4 of a link, 1/f = 2.5",
        "gap         0.0625: the optimum is at most 1.6 GB/s; the time limit was reached",
    ]
    weighed = pair_rate(collective=SimpleNamespace(demands="some", blocks=None))
    assert lines(report.print_pair_rate, weighed)[0] == (
        "rate        1.5 GB/s for each pair and unit of demand at once, exact"
    )
    monkeypatch.setattr(report, "uniform_bandwidth", lambda found: None)
    grouped = SimpleNamespace(demands="some", blocks=((0, 1), (2, 3)))
    few = pair_rate(exact=None, rate=999.5, upper=1000.0, gap=0.1, collective=grouped)
    assert lines(report.print_pair_rate, few) == [
        "rate        999.5 B/s for each pair of a group at once",
        "gap         0.1: the optimum is at most 1 kB/s",
    ]
    assert lines(report.print_pair_rate, few, output=Output(rates=Rates("kB/s"))) == [
        "rate        1 kB/s for each pair of a group at once",
        "gap         0.1: the optimum is at most 1 kB/s",
    ]


def solved(fabric: str | Topology = "ring:3", kind: str = "allgather", **options: Any) -> Any:
    return treadle.solve(fabric, kind, **options)


def test_a_schedule_and_its_packing(lines: Any) -> None:
    found = solved(FABRIC)
    assert found.is_optimal
    assert lines(report.print_schedule, found)[0] == (
        f"schedule    {Rates().both(found.plan.algbw, found.plan.collective)}, optimal"
    )
    far = replace(found.bound, algbw=found.plan.algbw * 8 / 5)
    below = replace(found, report=replace(found.report, bound=far.algbw))
    for one, said in (
        (replace(below, bound=far), "37.50% below the optimum"),
        (replace(below, bound=replace(far, is_tight=False)), "37.50% below the bound"),
        (replace(below, bound=None), "no bound known"),
    ):
        assert lines(report.print_schedule, one)[0].endswith(f" busbw, {said}")
    attempts = (SimpleNamespace(packer="first", outcome="too slow"),)
    checked = replace(found.report, height_max=5)
    packed = replace(found, packer="mine", packing=attempts, report=checked, height_bound=3)
    assert lines(report.print_packing, replace(packed, decomposition=None)) == [
        "packer      mine",
        "            first: too slow",
        "height      5; no forest is lower than 3",
    ]
    rough = replace(packed, report=replace(checked, height_is_exact=False), decomposition="of 2 cuts")
    assert lines(report.print_packing, rough) == [
        "tight cuts  of 2 cuts",
        "packer      mine",
        "            first: too slow",
        "height      at most 5; no forest is lower than 3",
    ]
    assert lines(
        report.print_packing, replace(packed, height_bound=None, packing=(), decomposition=None)
    ) == ["packer      mine"]
    assert lines(report.print_packing, replace(packed, packer=None, decomposition=None)) == [
        "packer      none: this construction does not pack trees per root"
    ]
    assert report.height_text(rough.report) == "height at most 5"
    assert report.height_text(checked) == "height 5"


def test_traffic_and_notes(lines: Any) -> None:
    found = solved()
    for before, after, said in (
        (8.0, 6.0, "6 x size over all links after pruning, 8 before (25.0% less)"),
        (0.0, 0.0, "0 x size over all links after pruning, 0 before"),
    ):
        traffic = SimpleNamespace(traffic_before=before, traffic_after=after)
        told = lines(report.print_schedule, replace(found, traffic=traffic, notes=("one", "two")))
        assert told[-3:] == [f"traffic     {said}", "note        one", "note        two"]


@pytest.mark.parametrize(
    ("fabric", "kind", "algorithm", "said"),
    [
        ("ring:3", "allgather", "ring", "trees       6 in all, height 2 (ring)"),
        ("ring:3", "allgather", None, "trees       1 per root, 3 in all, height 1 (forestcoll)"),
        (
            "torus:3,2",
            "alltoall",
            "pipelined",
            "steps       2, 2 chunks per shard, 66 sends (pipelined)",
        ),
        ("torus:3,2", "allreduce", "bfb", "steps       4, 3 chunks per shard, 84 sends (bfb)"),
        (
            "dgx_a100:2",
            "alltoall",
            None,
            "routes      240 routes, 1.00 a pair, at most 8 hops, 2 layers, 1 chunk a pair (routes)",
        ),
        (
            "dgx_h100:32",
            "allgather",
            None,
            "saturated   box*.gpu*->ib* (all 256 links of 50 GB/s), "
            "ib*->box*.gpu* (all 256 links of 50 GB/s)",
        ),
        ("ring:5", "reduce-scatter", "bfb", "steps       2, 1 chunk per shard, 20 sends (bfb)"),
    ],
)
def test_shapes_of_schedules(fabric: str, kind: str, algorithm: str, said: str, lines: Any) -> None:
    told = lines(report.print_schedule, solved(fabric, kind, algorithm=algorithm))
    assert said in told, told


def test_saturated_links_are_those_that_are_always_busy(lines: Any) -> None:
    """Broadcast from a over the thin link to d: one tree, whose slowest links set its rate."""
    found = solved(FABRIC, "broadcast", root=0)
    links = {FABRIC.link_name(link): link for link in range(FABRIC.n_links)}
    assert found.plan.algbw == 2 * GB
    assert report.saturated_links(found.plan) == [links["a->d"]]
    assert "saturated   a->d (link of 2 GB/s)" in lines(report.print_schedule, found)


def checked(**fields: Any) -> Report:
    values: dict[str, Any] = {
        "violations": (),
        "n_violations": 0,
        "algbw": Fraction(1),
        "bound": None,
        "height_max": 2,
    }
    return Report(**(values | fields))


def test_verification(lines: Any) -> None:
    end = ", loads and claims are exact"
    for one, said in (
        (checked(), f"yes: trees span, paths hold{end}"),
        (checked(n_steps=0), f"yes: every chunk arrives in time{end}"),
        (checked(n_layers=0), f"yes: every pair is served, no layer can deadlock{end}"),
        (checked(n_layers=1, n_steps=3), f"yes: every pair is served, no layer can deadlock{end}"),
    ):
        assert lines(report.print_verification, one) == [f"verified    {said}"]
    wrong = [Violation(next(iter(ViolationKind)), f"message {number}") for number in range(22)]
    for count in (1, 20):
        told = lines(report.print_verification, checked(violations=tuple(wrong[:count]), n_violations=count))
        assert told[0] == f"verified    NO: {count} violation{'s' * (count > 1)}"
        assert told[1:] == [f"            {one}" for one in wrong[:count]]
    told = lines(report.print_verification, checked(violations=tuple(wrong), n_violations=30))
    assert len(told) == 22
    assert told[20:] == [f"            {wrong[19]}", "            and 10 more (--json lists up to 1000)"]


def test_shortfalls_of_who_sends_point_to_point() -> None:
    forest = SimpleNamespace(algbw=Fraction(20 * GB, 3), entries=[SimpleNamespace(schedule=None)])
    start = (
        "x sends point to point where the plan leaves copies or sums to switches, so the plan's "
        "6.67 GB/s (20/3) do not hold for it; "
    )
    lacking = SimpleNamespace(algbw=None)
    assert report.describe_shortfall(forest, lacking, "x") == f"{start}by how much is not known"
    lacking = SimpleNamespace(algbw=Fraction(5 * GB, 3))
    end = "reach 1.67 GB/s (5/3) so, each transfer along fewest links"
    assert report.describe_shortfall(forest, lacking, "x") == f"{start}these trees {end}"
    steps = solved("ring:5", algorithm="bfb").plan.entries
    mixed = SimpleNamespace(algbw=forest.algbw, entries=[*forest.entries, *steps])
    assert report.describe_shortfall(mixed, lacking, "x") == (
        f"{start}its transfers, none held up by steps, {end}"
    )


def test_seconds_of_stages_that_took_any(lines: Any) -> None:
    spent = {"a": 0.005, "total": 3.456, "b": 0.0049, "c": 2.0}
    assert lines(report.print_seconds, spent) == ["CPU s       a 0.01, c 2.00, total 3.46"]
    assert lines(report.print_seconds, {"total": 0.0}) == ["CPU s       total 0.00"]


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
    assert shortfall(Fraction(9999), Fraction(10000)) == "0.01%"
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


def test_a_rate_tells_what_binds_it(lines: Any) -> None:
    found = treadle.bound("ring(3, bandwidth='4GB/s')", "alltoall").rate
    assert found is not None
    assert lines(report.print_rate, found) == [
        "rate        4 GB/s for each pair at once, exact",
        "            f = 1 of a link (1), 1/f = 1",
        "algbw       12 GB/s asymptotic, busbw 8 GB/s",
        "witness     link lengths; binding are all 6 links",
    ]
