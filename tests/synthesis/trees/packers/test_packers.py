"""The order of packers: whoever makes the forest, throughput is the optimum and the verifier agrees."""

from __future__ import annotations

import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.result import Result
from treadle.synthesis.trees import Packer, synthesise
from treadle.topologies import parse
from treadle.verification.schedules import verify

FABRICS = [
    "dgx_a100(2)", "dgx_a100(1, 4, pcie=True)", "gb200_nvl72(2, 2, nvls=True, sharp=True)", "dgx1_v100()",
    "mi300x(1)", "mi250(1)", "leaf_spine(2, 2, gpus_per_leaf=3)", "fat_tree(4)",
    "rail_optimized(2, gpus_per_box=4, spines=1)", "path(3)", "star(4)", "complete_bipartite(2, 3)",
    "torus(3, 2)", "kautz(2, 1)", "directed_circulant(6, 1, 2, 3, 4)", "uni_ring(2, 3)",
    "double_binary_tree(5)", "random_regular_digraph(9, 2, seed=1)", "line_graph(complete(3))",
    "xpander(3, 4, seed=2)", "modified_de_bruijn(3, 2)", "with_inserted_nodes(uni_ring(1, 4), 2)",
    "with_failed_links(ring(4), 'n0--n1')", "punctured(torus(3, 3), nodes=2)",
    "with_parallel_links(ring(4), 2)", "subset(mi250(2, gpus_per_box=8), '0-3', 5)",
    "with_host_bottleneck(ring(4), bandwidth='1B/s', nic_forwards=True)",
]  # fmt: skip


def built(name: str, packer: Packer | None = None, kind: CollectiveKind = CollectiveKind.ALLGATHER) -> Result:
    topology = parse(name)
    collective = on_all_ranks(topology, kind)
    result = synthesise(topology, collective, packer=packer)
    report = verify(topology, collective, result.schedule, claimed_algbw=result.algbw)
    assert not report.violations
    assert report.height_max is not None
    assert report.height_max >= result.height_bound
    return result


@pytest.mark.parametrize("name", FABRICS)
def test_every_packer_reaches_the_same_throughput(name: str) -> None:
    judge = built(name, Packer.GROWTH)
    for packer in (None, *(packer for packer in Packer if packer is not Packer.GROWTH)):
        assert built(name, packer).algbw == judge.algbw


def test_a_named_packer_is_tried_alone_before_growth() -> None:
    assert built("mi250(1)", Packer.PRICED_MATCHING).packing[0].packer is Packer.PRICED_MATCHING
    assert len(built("torus(4,4)", Packer.GROWTH).packing) == 1
