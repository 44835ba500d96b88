"""Heights at the best throughput: never more than twice the bound, and at 1024 GPUs what platforms allow."""

from __future__ import annotations

import pytest

from samples.catalogue_samples import SAMPLES
from treadle.errors import TreadleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.trees import synthesise
from treadle.topologies import parse

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
