"""Heights at the best throughput: never more than twice the bound, and at 1024 GPUs what platforms allow."""

from __future__ import annotations

import pytest

from samples.catalogue_samples import SAMPLES
from treadle.errors import TreadleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.trees import synthesise
from treadle.synthesis.trees.tight_cuts.decompose import FactoredSynthesis, decompose
from treadle.topologies import parse
from treadle.verification.schedules import verify

SMALL = {fabric.name for fabrics in SAMPLES.values() for fabric in fabrics if len(fabric.compute_nodes) <= 36}
LARGER = {
    "dgx_a100(4)",
    "dgx_h100(4)",
    "leaf_spine(4,2)",
    "rail_optimized(4,spines=4,oversubscription=2)",
    "pods(2,4)",
    "dragonfly(4,2)",
    "jellyfish(32,4)",
    "with_failed_links(mi250(2),'box0.gpu3--ib0')",
}


@pytest.mark.parametrize("name", sorted(SMALL | LARGER))
def test_no_height_is_more_than_twice_the_bound(name: str) -> None:
    topology = parse(name)
    try:
        result = synthesise(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    except TreadleError:
        pytest.skip("no spanning trees here")
    assert result.height_bound <= height_max(result.schedule) <= 2 * result.height_bound


@pytest.mark.parametrize(
    ("name", "height"),
    [
        ("dgx_a100_flat(128)", 2),
        ("dgx_a100(128)", 2),
        ("dgx_h100(128)", 2),
        ("gb200_nvl72(15)", 2),
        ("leaf_spine(32,16,gpus_per_leaf=32,oversubscription=2)", 2),
        ("rail_optimized(128)", 2),
        ("pods(8,16)", 3),
        ("pods(8,16,oversubscription=2)", 3),
        ("mi250(64)", 6),
        ("with_failed_links(dgx_a100_flat(128),'box0.gpu1--ib0','box1.gpu3--ib0','box1.gpu4--ib0')", 3),
        ("with_failed_links(mi250(64),'box0.gpu3--ib0','box9.gpu14--ib0','box9.gpu15--ib0')", 7),
    ],
)
def test_factored_forests_of_platforms_are_low(name: str, height: int) -> None:
    topology = parse(name)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert isinstance(found, FactoredSynthesis)
    report = verify(topology, collective, found.schedule)
    assert (report.n_violations, report.height_max, report.height_is_exact) == (0, height, True)
