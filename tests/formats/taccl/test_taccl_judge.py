"""TACCL's algorithms judged: what they are, and every way in which one can be wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from samples.foreign import foreign_files
from samples.foreign.foreign_files import Json, as_bytes
from treadle.errors import FormatError
from treadle.formats.schedule_source import source_name
from treadle.formats.taccl.interpreter import interpret
from treadle.formats.verdict import Terms

SAMPLES = {
    "allgather": foreign_files.taccl_ring_allgather(4),
    "reduce-scatter": foreign_files.taccl_ring_reduce_scatter(4),
    "allreduce": foreign_files.taccl_ring_allreduce(4),
    "alltoall": foreign_files.taccl_relayed_alltoall(4),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_sound_ones_pass(kind: str) -> None:
    found = interpret([as_bytes(SAMPLES[kind])], Terms())
    assert (found.collective, found.n_ranks, found.violations) == (kind, 4, ())
    record = source_name(as_bytes(SAMPLES[kind]).decode()[:100])
    assert record is not None
    assert record.name == "taccl"


def test_rooted_ones_are_told_apart() -> None:
    chunks = [{"pre": [2], "post": [0, 1, 2], "addr": 0}]
    steps = [[[0, 2, 0], [0, 2, 1]]]
    assert (
        interpret([as_bytes(foreign_files.taccl("x", 3, chunks, steps))], Terms()).collective == "broadcast"
    )
    parts = [{"pre": [rank], "post": [2], "addr": 0} for rank in range(3)]
    found = interpret([as_bytes(foreign_files.taccl("x", 3, parts, [[[0, 0, 2], [0, 1, 2]]]))], Terms())
    assert (found.collective, found.violations) == ("reduce", ())


@pytest.mark.parametrize("kind", SAMPLES)
def test_each_send_is_needed(kind: str) -> None:
    """Rings send nothing twice: without any one send, or with it a step early, something is wrong."""
    sample = SAMPLES[kind]
    for number, step in enumerate(sample["steps"]):
        for place in range(len(step["sends"])):
            without = copy.deepcopy(sample)
            send = without["steps"][number]["sends"].pop(place)
            assert interpret([as_bytes(without)], Terms()).violations
            if number and send[1] != 0:
                without["steps"][0]["sends"].append(send)
                assert interpret([as_bytes(without)], Terms()).violations or kind == "alltoall"


def test_a_contribution_twice_is_seen() -> None:
    sample = copy.deepcopy(SAMPLES["reduce-scatter"])
    sample["steps"].append({"sends": [[0, 1, 0, 9, 0, "rrc"]]})
    (fault, *_) = interpret([as_bytes(sample)], Terms()).violations
    assert fault == "step 3: address 0 from 1 to 0: adds what is in the sum already"


def test_a_sum_that_is_overwritten_is_seen() -> None:
    sample = copy.deepcopy(SAMPLES["reduce-scatter"])
    sample["steps"].append({"sends": [[0, 1, 0, 9, 0, "r"]]})
    assert "overwrites contributions" in interpret([as_bytes(sample)], Terms()).violations[0]


def changed(change: Callable[[Json], object]) -> bytes:
    sample = copy.deepcopy(SAMPLES["allgather"])
    change(sample)
    return as_bytes(sample)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[]", "sccl_type"),
        (b"{}", "sccl_type"),
        (b"\xff", "no UTF-8"),
        (changed(lambda s: s.update(sccl_type="topology")), "expected 'algorithm'"),
        (changed(lambda s: s.pop("collective")), "collective"),
        (changed(lambda s: s["collective"].update(nodes=10**9)), "expected an integer from 2 to 4096"),
        (changed(lambda s: s["collective"].update(nodes=True)), "expected an integer"),
        (changed(lambda s: s["collective"].update(chunks=[])), "0 chunks"),
        (changed(lambda s: s["collective"]["chunks"][0].update(pre=[4])), "from 0 to 3"),
        (changed(lambda s: s["collective"]["chunks"][0].update(post=[0])), "no collective that is known"),
        (changed(lambda s: s["collective"]["chunks"].pop()), "no chunk has that address"),
        (changed(lambda s: s["steps"][0]["sends"].append([0, 1, 1])), "the ends are one"),
        (changed(lambda s: s["steps"][0]["sends"].append([99, 0, 1])), "no chunk has that address"),
        (changed(lambda s: s["steps"][0]["sends"].append([0, 1])), "expected [address, source, target"),
        (changed(lambda s: s["steps"].append(7)), "step 3: sends: expected a list"),
    ],
)
def test_malformed_ones_are_refused_in_one_line(data: bytes, words: str) -> None:
    with pytest.raises(FormatError) as caught:
        interpret([data], Terms(source="a.json"))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("a.json: ")
