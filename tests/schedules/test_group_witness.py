"""Lengths that bound groups at once: against all arborescences, networkx and the linear program."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest

from reference.groups.group_bounds import group_length_bound, lightest_by_networkx, lightest_by_trying
from reference.groups.group_lp import group_lp
from samples.groups.group_fabrics import random_fabric
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.certificate import certificate_from_json
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind, on_all_ranks
from treadle.schedules.group_certificate import MAX_LENGTHS, GroupDualCertificate
from treadle.schedules.mesh import Mesh
from treadle.topologies import Topology, TopologyBuilder, parse, without_failures

ALLGATHER, ALLREDUCE, BROADCAST = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.BROADCAST,
)


def proved(topology: Topology, collective: Collective, lengths: tuple[Fraction, ...]) -> Fraction | None:
    try:
        return GroupDualCertificate(lengths).bound(topology, collective)
    except ScheduleError as error:
        assert "do not reach each other" in str(error) or "length 0" in str(error)  # noqa: PT017
        return None


def random_lengths(random: Random, n_links: int) -> tuple[Fraction, ...]:
    """Some are 0, some equal, some are fractions."""
    most = random.choice([1, 2, 9])
    share = random.random()
    return tuple(
        Fraction(random.randint(1, most), random.choice([1, 1, 2, 3]))
        if random.random() < share
        else Fraction(0)
        for _ in range(n_links)
    )


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_bounds_are_those_of_all_arborescences(kind: CollectiveKind) -> None:
    random, compared = Random(7), 0
    for _ in range(35):
        topology, collective = random_fabric(random, kind, most_ranks=8)
        lengths = random_lengths(random, topology.n_links)
        expected = group_length_bound(topology, collective, lengths, lightest_by_trying)
        assert proved(topology, collective, lengths) == expected
        compared += expected is not None
    assert compared > 12


@pytest.mark.parametrize(
    ("kind", "fabric", "shape", "axis", "ranks_forward"),
    [
        (ALLREDUCE, "generalized_kautz:3,16", (2, 8), 1, True),
        (BROADCAST, "torus:4,4", (2, 8), 1, True),
        (ALLGATHER, "leaf_spine:3,2,gpus_per_leaf=4", (2, 6), 1, False),
        (ALLREDUCE, "leaf_spine:3,2,gpus_per_leaf=3", (1, 9), 1, False),
        (BROADCAST, "dgx_h100:2", (2, 8), 1, False),
        (ALLGATHER, "torus:3,3", (1, 9), 1, False),
    ],
)
def test_bounds_of_larger_groups_are_networkx_s(
    kind: CollectiveKind, fabric: str, shape: tuple[int, int], axis: int, ranks_forward: bool
) -> None:
    topology = parse(fabric)
    plain = replace(topology, multicast=(), aggregation=(), turns_round=())
    groups = Mesh(shape, ("a", "b")).groups("ab"[axis])
    ranks = tuple(topology.compute_nodes.tolist())
    root = 3 if kind.is_rooted else None
    collective = Collective(kind, ranks, root=root, groups=groups, ranks_forward=ranks_forward)
    random = Random(fabric)
    for most in (2, 10**6):
        lengths = tuple(Fraction(random.randint(0, most), 7) for _ in range(plain.n_links))
        expected = group_length_bound(plain, collective, lengths, lightest_by_networkx)
        assert expected is not None
        assert GroupDualCertificate(lengths).bound(topology, collective) == expected


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_switches_of_boxes_are_no_ways_between_boxes(kind: CollectiveKind) -> None:
    """Members have a dead end each, shorter than any way between them, and are alike all the same."""
    topology = parse("dgx_h100:5")
    root = 2 if kind.is_rooted else None
    ranks = tuple(topology.compute_nodes.tolist())
    collective = Collective(kind, ranks, root=root, groups=Mesh((5, 8), ("a", "b")).groups("a"))
    names = topology.node_names
    lengths = tuple(
        Fraction(1 if "nvswitch" in names[tail] + names[head] else 7 if topology.is_compute[tail] else 9)
        for tail, head in zip(topology.tails, topology.heads, strict=True)
    )
    expected = group_length_bound(topology, collective, lengths, lightest_by_networkx)
    assert GroupDualCertificate(lengths).bound(topology, collective) == expected


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_no_lengths_prove_less_than_the_optimum_and_its_prices_prove_it(kind: CollectiveKind) -> None:
    random, compared = Random(3), 0
    for _ in range(10):
        topology, collective = random_fabric(random, kind)
        optimum, prices = group_lp(topology, collective)
        for _ in range(10):
            found = proved(topology, collective, random_lengths(random, topology.n_links))
            assert found is None or found >= optimum * (1 - 1e-9)
        if optimum > 1e-9:
            lengths = tuple(Fraction(round(price * 10**9)) for price in prices)
            found = proved(topology, collective, lengths)
            assert found is not None
            assert float(found) == pytest.approx(optimum, rel=1e-6)
            compared += 1
    assert compared > 4


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_long_integers_prove_what_short_ones_do(kind: CollectiveKind) -> None:
    """Beyond 64 bits; only ratios matter, so the scale is by what differs a little from link to link."""
    random, compared = Random(5), 0
    for _ in range(20):
        topology, collective = random_fabric(random, kind, most_ranks=8)
        short = random_lengths(random, topology.n_links)
        assert proved(topology, collective, tuple(7 * length for length in short)) == proved(
            topology, collective, short
        )
        wide = tuple(length * 3**50 + random.randint(0, 3**40) for length in short)
        expected = group_length_bound(topology, collective, wide, lightest_by_trying)
        assert proved(topology, collective, wide) == expected
        compared += expected is not None
    assert compared > 5


def boxes(kind: CollectiveKind = ALLGATHER) -> tuple[Topology, Collective]:
    topology = parse("leaf_spine:4,2,gpus_per_leaf=8,oversubscription=4")
    groups = Mesh((4, 8), ("a", "b")).groups("a")
    return topology, Collective(kind, tuple(topology.compute_nodes.tolist()), groups=groups)


def between_switches(topology: Topology) -> tuple[Fraction, ...]:
    compute = topology.is_compute
    return tuple(
        Fraction(0 if compute[tail] or compute[head] else 1, 3)
        for tail, head in zip(topology.tails, topology.heads, strict=True)
    )


def test_groups_across_leaves_by_hand() -> None:
    """8 groups over 4 leaves, 8 ranks at each: each leaf's 50 GB/s out carry 3/4 of 8 groups' data."""
    topology, collective = boxes()
    certificate = GroupDualCertificate(between_switches(topology))
    assert certificate.bound(topology, collective) == Fraction(50 * 10**9, 3)
    rounds = GroupDualCertificate((Fraction(5),) * topology.n_links)
    assert rounds.bound(topology, collective) > certificate.bound(topology, collective)
    _, both = boxes(ALLREDUCE)
    assert certificate.bound(topology, both) == Fraction(25 * 10**9, 3)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_ranks_at_no_length_of_each_other_count_as_one(kind: CollectiveKind) -> None:
    """One group as such, whose ranks are merged, against the same as the only one of several."""
    random, compared = Random(11), 0
    for _ in range(45):
        topology, groups = random_fabric(random, kind, most_ranks=8)
        topology = replace(topology, multicast=(), aggregation=(), turns_round=())
        ranks = groups.member(0).ranks
        others = tuple(node for node in topology.compute_nodes.tolist() if node not in ranks)
        alone = replace(groups.member(0), forwarders=others, weights=None)
        lengths = random_lengths(random, topology.n_links)
        listed = replace(alone, groups=(tuple(range(alone.n_ranks)),))
        expected = proved(topology, listed, lengths)
        assert proved(topology, alone, lengths) == expected
        compared += expected is not None
    assert compared > 11


def test_boxes_of_a_large_fabric_are_few_places() -> None:
    """16,384 ranks in 2,048 boxes that are alike but one: each other byte crosses its box's cards twice."""
    topology = without_failures(parse("dgx_h100:2048"), ["box0.gpu0--ib0"])
    (outside,) = [node for node in topology.switches.tolist() if topology.node_names[node] == "ib0"]
    crosses = (topology.tails == outside) | (topology.heads == outside)
    certificate = GroupDualCertificate(tuple(map(Fraction, crosses.astype(int).tolist())))
    volume = 2 * 50 * 10**9 * 16383
    assert certificate.bound(topology, on_all_ranks(topology, ALLREDUCE)) == Fraction(volume, 4 * 2047)


def test_whole_fabrics_of_many_alike_ranks() -> None:
    """16,384 ranks in 128 kinds of twins: 2 * 16383 / 16384 of all data go over each leaf's 128 links up."""
    topology = parse("leaf_spine:128,16,gpus_per_leaf=128,oversubscription=4")
    collective = on_all_ranks(topology, ALLREDUCE)
    alike = GroupDualCertificate(between_switches(topology))
    up = 1600 * 10**9
    assert alike.bound(topology, collective) == Fraction(up * 2 * 128, 2 * 2 * 127)
    every = GroupDualCertificate((Fraction(1),) * topology.n_links)
    volume = int(topology.bandwidths.sum())
    tree = 2 * (16384 - 128) + 4 * 127
    assert every.bound(topology, collective) == Fraction(volume, 2 * tree)


def test_bad_lengths_prove_nothing() -> None:
    topology, collective = boxes()
    n, one = topology.n_links, Fraction(1)
    for lengths, message in (
        ((one,) * (n - 1), f"expected one for each of {n} links"),
        ((-one, *(one,) * (n - 1)), "must not be negative"),
        ((Fraction(0),) * n, "length 0"),
        (tuple(Fraction(1, 10**300 + i) for i in range(n)), "no common denominator"),
        (tuple(Fraction(2**90 + i) for i in range(n)), ""),
        (tuple(Fraction(3**100 + i) for i in range(n)), "use coarser ones"),
    ):
        certificate = GroupDualCertificate(lengths)
        if message:
            with pytest.raises(ScheduleError, match=message) as caught:
                certificate.bound(topology, collective)
            assert "\n" not in str(caught.value)
        else:
            assert certificate.bound(topology, collective) > 0


def test_what_trees_of_ranks_do_not_bound_is_refused() -> None:
    capable = parse("dgx_h100:1")
    lengths = GroupDualCertificate((Fraction(1),) * capable.n_links)
    switched = replace(capable, multicast=~capable.is_compute, aggregation=~capable.is_compute)
    for kind in (ALLGATHER, ALLREDUCE, CollectiveKind.REDUCE):
        one = on_all_ranks(switched, kind, root=0 if kind.is_rooted else None)
        with pytest.raises(ScheduleError, match="invalid with in-network"):
            lengths.bound(switched, one)
        alike = replace(one, groups=(one.ranks,))
        assert lengths.bound(switched, alike) == lengths.bound(
            replace(switched, multicast=(), aggregation=()), one
        )
    with pytest.raises(ScheduleError, match="not alltoall"):
        lengths.bound(capable, on_all_ranks(capable, CollectiveKind.ALLTOALL))
    with pytest.raises(ScheduleError, match="neither a rank nor a forwarder"):
        lengths.bound(capable, Collective(ALLGATHER, (0, 1)))


def test_groups_that_are_not_joined_up_have_no_bound() -> None:
    """Ranks of one group only reach each other through those of the other."""
    topology = parse("ring:4")
    collective = Collective(ALLGATHER, (0, 1, 2, 3), groups=((0, 2), (1, 3)))
    certificate = GroupDualCertificate((Fraction(1),) * topology.n_links)
    with pytest.raises(ScheduleError, match="ranks of group 0 do not reach each other"):
        certificate.bound(topology, collective)
    assert certificate.bound(topology, replace(collective, ranks_forward=True)) == 2


def test_files_keep_lengths_in_runs() -> None:
    topology, _ = boxes()
    certificate = GroupDualCertificate(between_switches(topology))
    value = json.loads(json.dumps(certificate.to_json()))
    assert value["values"] == ["0", "1/3"]
    assert sum(value["run_links"]) == topology.n_links
    assert len(value["run_value"]) < 10
    assert certificate_from_json(value) == certificate
    assert certificate_from_json(GroupDualCertificate(()).to_json()) == GroupDualCertificate(())


@pytest.mark.parametrize(
    "change",
    [
        {"values": ["0", "1/0"]},
        {"values": ["0", 1]},
        {"values": "0"},
        {"values": ["0"]},
        {"run_value": [0, 2]},
        {"run_value": [0, -1]},
        {"run_value": [0, True]},
        {"run_value": [0, 1.0]},
        {"run_value": [0]},
        {"run_value": None},
        {"run_links": [1, 0]},
        {"run_links": [1, -1]},
        {"run_links": [1, MAX_LENGTHS]},
        {"run_links": [1, 10**30]},
        {"run_links": [1, "1"]},
        {"run_links": [[1], 1]},
        {"more": 1},
    ],
)
def test_malformed_files_are_refused(change: dict[str, object]) -> None:
    value = {"kind": "group-lengths", "values": ["0", "1/3"], "run_value": [0, 1], "run_links": [1, 2]}
    third = Fraction(1, 3)
    assert certificate_from_json(value) == GroupDualCertificate((Fraction(0), third, third))
    with pytest.raises(FormatError) as caught:
        certificate_from_json({**value, **change})
    assert "\n" not in str(caught.value)


def test_equal_lengths_prove_nothing_where_ranks_do_not_reach_each_other() -> None:
    builder = TopologyBuilder("one way")
    names = [builder.compute(name) for name in "abc"]
    for tail, head in pairwise(names):
        builder.link(tail, head, 1)
    topology = builder.build()
    for kind in (CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE):
        with pytest.raises(ScheduleError, match="do not reach each other"):
            GroupDualCertificate((Fraction(1),) * 2).bound(topology, on_all_ranks(topology, kind))
