"""The optimum by tight cuts, however many trees it takes."""

from __future__ import annotations

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tree_budget import MAX_TREES, TreeBudget
from treadle.topologies.catalogue.platforms import mi250
from treadle.topologies.transforms.changes import with_failed_links
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify


def test_more_trees_than_by_default_where_the_optimum_is_asked_for() -> None:
    topology = with_failed_links(mi250(4), "box1.gpu10--box1.gpu14")
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    best = optimum(topology, collective).algbw
    usual = decompose(topology, collective)
    assert not isinstance(usual, Unsupported)
    assert usual.trees_per_root < MAX_TREES
    assert usual.algbw < usual.optimum.algbw == best
    exact = decompose(topology, collective, budget=TreeBudget(exact=True))
    assert not isinstance(exact, Unsupported)
    assert exact.trees_per_root > MAX_TREES
    assert exact.algbw == best
    assert not verify(topology, collective, exact.schedule, claimed_algbw=best).violations
