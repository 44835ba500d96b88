"""TE-CCL's schedules judged: real ones, and every way in which one can be wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import pytest

from samples.foreign import foreign_files
from samples.foreign.foreign_files import Json, as_bytes
from treadle.errors import TreadleError
from treadle.formats.teccl.interpreter import interpret
from treadle.formats.teccl.traffic import traffic
from treadle.formats.verdict import Terms

GATHER, EXCHANGE = foreign_files.teccl_star_allgather(4), foreign_files.teccl_ring_alltoall()


def flow(text: str) -> Json:
    sample = copy.deepcopy(GATHER)
    sample["7-Flows"].append(text)
    return sample


def path(change: Callable[[list[list[object]]], object]) -> Json:
    """The all-to-all with the first path of two hops changed."""
    sample = copy.deepcopy(EXCHANGE)
    change(sample["8-Chunk paths"]["Demand at 2 for chunk 2 from 0 met by epoch 1"][0])
    return sample


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (flow("Chunk 1 from 1 traveled over 2->3 in epoch 0"), "without having it"),
        (flow("Chunk 0 from 1 traveled over 1->1 in epoch 0"), "to itself"),
        (flow("Chunk 7 from 1 traveled over 1->2 in epoch 0"), "GPUs have 1 to 2 chunks"),
        (path(lambda hops: hops.pop(0)), "a path leads from 1 to 2"),
        (path(lambda hops: hops.reverse()), "leads from"),
        (path(lambda hops: hops[1].__setitem__(1, "1->2 with volume 0.5 in epoch 0")), "does not follow on"),
        (path(lambda hops: hops[1].__setitem__(1, "1->2 with volume 0.25 in epoch 1")), "does not follow on"),
        (path(lambda hops: hops[1].__setitem__(1, "3->2 with volume 0.5 in epoch 1")), "does not follow on"),
    ],
)
def test_wrong_ones_are_found(sample: Json, words: str) -> None:
    assert any(words in fault for fault in interpret([as_bytes(sample)], Terms()).violations)


@pytest.mark.parametrize("sample", [GATHER, EXCHANGE], ids=["allgather", "alltoall"])
def test_damaged_ones_end_in_one_line(sample: Json) -> None:
    """Whatever a byte becomes: a verdict, or a refusal; and what passes can be made a program of."""
    data = json.dumps(sample, indent=1).encode()
    passed, messages = 0, []
    for place in range(0, len(data), 13):
        for byte in (b"9", b'"', b"x"):
            damaged = data[:place] + byte + data[place + 1 :]
            try:
                found = interpret([damaged], Terms())
                if not found.violations:
                    passed += 1
                    assert traffic(damaged, Terms()).program.n_ranks == 4
            except TreadleError as error:
                messages.append(str(error))
    assert passed
    assert not any("\n" in message for message in messages)
