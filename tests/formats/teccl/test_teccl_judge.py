"""TE-CCL's schedules judged: real ones, and every way in which one can be wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import pytest

import places
from samples.foreign import foreign_files
from samples.foreign.foreign_files import Json, as_bytes
from treadle.errors import FormatError, TreadleError
from treadle.formats.schedule_source import source_name
from treadle.formats.teccl.interpreter import interpret
from treadle.formats.teccl.traffic import traffic
from treadle.formats.verdict import Terms

GATHER, EXCHANGE = foreign_files.teccl_star_allgather(4), foreign_files.teccl_ring_alltoall()


def test_sound_ones_pass() -> None:
    for sample, kind, hops in ((GATHER, "allgather", 12), (EXCHANGE, "alltoall", 24)):
        found = interpret([as_bytes(sample)], Terms())
        assert (found.collective, found.n_ranks, found.violations) == (kind, 4, ())
        assert found.counts == (("hop", hops),)
        record = source_name(json.dumps(sample, indent=2)[:100])
        assert record is not None
        assert record.name == "te-ccl"


def test_the_sample_passes_and_no_flow_of_it_can_be_missed() -> None:
    path = places.FOREIGN_SAMPLES / "teccl_schedule_dgx2.json"
    if not path.is_file():
        pytest.skip(f"no samples of others in {places.FOREIGN_SAMPLES}")
    sample = json.loads(path.read_text())
    assert interpret([path.read_bytes()], Terms()).violations == ()
    for place in range(0, 992, 97):
        without = {**sample, "7-Flows": sample["7-Flows"][:place] + sample["7-Flows"][place + 1 :]}
        assert interpret([as_bytes(without)], Terms()).violations


def test_each_flow_is_needed() -> None:
    for place in range(len(GATHER["7-Flows"])):
        sample = copy.deepcopy(GATHER)
        sample["7-Flows"].pop(place)
        assert "never comes to 1 GPUs" in interpret([as_bytes(sample)], Terms()).violations[-1]


def test_each_path_is_needed() -> None:
    for key, routes in EXCHANGE["8-Chunk paths"].items():
        for place in range(len(routes)):
            sample = copy.deepcopy(EXCHANGE)
            sample["8-Chunk paths"][key].pop(place)
            assert "its paths carry" in interpret([as_bytes(sample)], Terms()).violations[0]


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


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[]", "expected an object"),
        (b"\xff", "no UTF-8"),
        (as_bytes({"1-Epoch_Duration": 1}), "lacks its flows"),
        (as_bytes({**GATHER, "7-Flows": {}}), "expected a list"),
        (as_bytes(flow("Chunk 0 from 1 went over 1->2")), "expected 'Chunk C from S"),
        (as_bytes({**GATHER, "7-Flows": [1]}), "expected 'Chunk C from S"),
        (as_bytes(flow("Chunk 0 from 1 traveled over 1->0 in epoch 0")), "rounds of A*"),
        (as_bytes({**EXCHANGE, "8-Chunk paths": {}}), "lacks its paths"),
        (as_bytes({**EXCHANGE, "8-Chunk paths": {"Demand": []}}), "expected 'Demand at D"),
        (as_bytes(path(lambda hops: hops.clear())), "a path without hops"),
        (as_bytes(path(lambda hops: hops.append(["x"]))), "expected 'A->B in epoch K'"),
        (
            as_bytes(path(lambda hops: hops[0].__setitem__(1, "0->1 with volume 1e999 in epoch 0"))),
            "expected",
        ),
        (
            as_bytes(path(lambda hops: hops[0].__setitem__(1, "0->1 with volume -1 in epoch 0"))),
            "expected 0 to 10000",
        ),
        (
            as_bytes({**GATHER, "8-Chunk paths": dict(list(GATHER["8-Chunk paths"].items())[1:])}),
            "no allgather",
        ),
    ],
)
def test_malformed_ones_are_refused_in_one_line(data: bytes, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        interpret([data], Terms(source="a.json"))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


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
