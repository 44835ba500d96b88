"""The commands of tools/values.txt give the values recorded in tests/golden; `make values` compares CPU."""

from __future__ import annotations

import re
from functools import cache

import pytest
from tools.values import Block, blocks, differences, load, measure

KEPT = cache(load)


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.commands[-1])
def test_commands_give_the_values_recorded(block: Block) -> None:
    """Exact values, times, files and exit statuses; heights and steps may fall."""
    found = measure(block, re.compile(""), in_process=True)
    worse = {name: differences(KEPT()[name], record)[0] for name, record in found.items()}
    assert not any(worse.values()), worse
