"""What a page about a design says: tiles, tables, curves and facts, of nine nodes with four ports."""

from __future__ import annotations

import pytest

from treadle import planning
from treadle.drawing.pages import design_page
from treadle.finder.building.installed_fabric import InstalledFabric
from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.designing.design_result import DesignResult
from treadle.finder.workload import Network, allreduce_of

NETWORK = Network(1e-6, 12_500_000_000)


@pytest.fixture(scope="module")
def result() -> DesignResult:
    """One fabric is the frontier: two steps and 8/9 M/B, which none beats."""
    return planning.design(
        9,
        4,
        network=NETWORK,
        workload=allreduce_of(2**20),
        alltoall=AlltoallRates.BOUND,
        use_cache=False,
    )


@pytest.fixture(scope="module")
def built(result: DesignResult) -> InstalledFabric:
    return planning.cabling(result.topology(), rack_size=4)


def test_facts_of_a_design(result: DesignResult, built: InstalledFabric) -> None:
    assert design_page._facts(result, result.best, built) == [
        ["Chosen", result.best.option.expression],
        ["Network", "1.00 us a step, 12.5 GB/s out of and into a node"],
        ["Workload", "one allreduce"],
        ["Lower bounds (9 nodes, 4 ports each, no switches)", "2 steps, T_B 0.8889 M/B"],
        ["Racks", "3 of at most 4 nodes, 0.6 m wide, rows 2.4 m apart"],
    ]
