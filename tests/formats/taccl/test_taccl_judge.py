"""TACCL's algorithms judged: what they are, and every way in which one can be wrong."""

from __future__ import annotations

import copy

import pytest

from samples.foreign import foreign_files
from samples.foreign.foreign_files import as_bytes
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
