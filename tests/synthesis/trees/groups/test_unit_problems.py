"""Whole unit trees, and numberings that do not depend on the numbers of nodes and links."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.synthesis.trees.groups.group_optimum import GroupAllocation
from treadle.synthesis.trees.groups.unit_problems import unit_allocation


def shares(roots: list[int], bandwidths: list[int]) -> GroupAllocation:
    """Shares of the links 0, 1, ..., in millionths."""
    return GroupAllocation(
        np.arange(len(bandwidths)), np.array(bandwidths, dtype=object), tuple(roots), 10**6
    )


@pytest.mark.parametrize("bandwidths", [[2**51], [2**50] * 2048, [10**30]])
def test_numbers_beyond_those_of_forests_are_refused(bandwidths: list[int]) -> None:
    with pytest.raises(InfeasibleError, match=r"some group: its exact optimum takes 1 unit trees"):
        unit_allocation("some group", [shares([1], bandwidths)])
