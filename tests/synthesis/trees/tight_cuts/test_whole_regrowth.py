"""Factored forests made lower as a whole: one piece, verified, as fast; low ones stay."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.factored import FactoredSchedule
from treadle.synthesis.trees import decompose
from treadle.synthesis.trees.fixed_trees import floor_capacities
from treadle.synthesis.trees.heights import smallest_height
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts.decompose import rebuild_undivided
from treadle.topologies import parse
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify

KINDS = [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER]


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_become_one_that_is_lower(kind: CollectiveKind) -> None:
    topology = parse("double_binary_tree(62)")
    collective = on_all_ranks(topology, kind)
    found = decompose(topology, collective, lower=False)
    assert not isinstance(found, Unsupported), found
    high = verify(topology, collective, found.schedule, claimed_algbw=found.algbw).height_max
    (part,) = found.parts
    problem = instance_of(topology, collective)
    forest, reports = rebuild_undivided(problem, part.forest, part.kinds, part.scale, times=1)
    (report,) = reports
    assert (report.count, report.children) == (1, topology.n_nodes)
    assert len(part.kinds) > 1
    is_reduce = kind is CollectiveKind.REDUCE_SCATTER
    schedule = FactoredSchedule(
        kind, reduce=forest if is_reduce else None, broadcast=None if is_reduce else forest
    )
    judged = verify(topology, collective, schedule, claimed_algbw=found.optimum.algbw)
    assert not judged.violations
    assert judged.height_max is not None
    assert high is not None
    assert judged.height_max < high
    assert np.array_equal(forest.root_multiplicity, part.forest.root_multiplicity)


@pytest.mark.parametrize("name", ["double_binary_tree(62)", "dgx_a100(4)"])
def test_forests_that_are_low_enough_or_behind_switches_stay(name: str) -> None:
    topology = parse(name)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective, lower=False)
    assert not isinstance(found, Unsupported), found
    (part,) = found.parts
    times = 0 if len(topology.switches) else 2
    kept, kinds = rebuild_undivided(
        instance_of(topology, collective), part.forest, part.kinds, part.scale, times=times
    )
    assert kept is part.forest
    assert kinds is part.kinds


def test_decomposed_fabrics_are_at_most_twice_as_high_as_the_bound() -> None:
    """Clusters of seven are entered and left by other ranks each time: their heights add up."""
    topology = parse("double_binary_tree(150)")
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported), found
    report = verify(topology, collective, found.schedule, claimed_algbw=found.optimum.algbw)
    assert not report.violations
    problem = instance_of(topology, collective)
    capacities = floor_capacities(problem.bandwidths, found.schedule.total_units / found.algbw)
    bound = smallest_height(problem, problem.weights * found.trees_per_root, capacities)
    assert report.height_max is not None
    assert report.height_max <= 2 * bound
