"""Which tests matter for a line: those that run its block, quick ones and those of its own folder first."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .blocks import Block, block_of

OWN_FOLDER = 0.3
"""A test of the mirrored folder counts as if it took this share of its time."""

KIN = 3.0
"""A test beside one that runs the block, which may look at what that one left in a cache, as if thrice."""


@dataclass(frozen=True)
class TestMap:
    """What each test ran.

    Parameters
    ----------
    blocks : sequence of Block
    seconds : mapping of test to CPU seconds
    tests : mapping of block number to tests
    """

    __test__ = False

    blocks: Sequence[Block]
    seconds: Mapping[str, float]
    tests: Mapping[int, Sequence[str]]

    def chosen(self, path: str, line: int, budget_s: float) -> list[str]:
        """Tests for a line in the order in which to run them, while they fit into the budget.

        Parameters
        ----------
        path : str
            From the root of the tree.
        line : int
        budget_s : float
            CPU seconds of all of them.
        """
        number = block_of(self.blocks, path, line)
        direct = set(self.tests.get(number, ())) if number is not None else set()
        if not direct:  # run by every import, or in another process: those that run anything of the file
            places = [place for place, block in enumerate(self.blocks) if block.path == path]
            direct = {test for place in places for test in self.tests.get(place, ())}
        files = {test.partition("::")[0] for test in direct}
        kin = {test for test in self.seconds if test.partition("::")[0] in files} - direct
        folder = mirrored(path)

        def rank(test: str) -> float:
            share = (OWN_FOLDER if test.startswith(folder) else 1.0) * (KIN if test in kin else 1.0)
            return share * (self.seconds[test] + 0.01)

        picked, left = [], budget_s
        for test in sorted(direct | kin, key=rank):
            if self.seconds[test] <= left:
                picked.append(test)
                left -= self.seconds[test]
        return picked


def mirrored(path: str) -> str:
    """The folder of tests that mirrors a file's package."""
    parts = Path(path).parts
    return f"tests/{parts[2]}/" if len(parts) > 3 else "tests/"


def read_map(folder: Path) -> TestMap:
    """What `write_map` and the plugin wrote into a folder."""
    blocks = [Block(*row) for row in json.loads((folder / "blocks.json").read_text(encoding="utf-8"))]
    seconds: dict[str, float] = {}
    tests: defaultdict[int, list[str]] = defaultdict(list)
    for path in sorted(folder.glob("notes-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            note = json.loads(line)
            if not note["passed"]:
                continue
            seconds[note["test"]] = note["seconds"]
            for number in note["blocks"]:
                tests[number].append(note["test"])
    return TestMap(blocks, seconds, tests)


def write_blocks(blocks: Sequence[Block], folder: Path) -> None:
    """Keep which lines the numbers stand for."""
    rows = [(block.path, block.first, block.last) for block in blocks]
    (folder / "blocks.json").write_text(json.dumps(rows), encoding="utf-8")
