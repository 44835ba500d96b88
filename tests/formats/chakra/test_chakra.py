"""Chakra traces: played by the reader, mutated, hostile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

import places
from samples.exchange_samples import alltoall, over_shortest_paths
from samples.program_cases import random_case
from treadle.errors import FormatError
from treadle.formats.chakra.interpreter import interpret_chakra, parse_chakra
from treadle.formats.chakra.writer import emit_chakra
from treadle.program.program import OperationKind, Program
from treadle.program.steps.exchange_lowering import lower_exchange
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.topologies.catalogue.graphs import torus

pytest.importorskip(
    "google.protobuf", reason="Chakra: protobuf is not installed; pip install 'treadle[chakra]'"
)


GOLDEN = places.GOLDEN / "allreduce_rank0.et"


def moved(program: Program, size: int) -> dict[tuple[int, int], int]:
    """Bytes between ranks, counted from the program."""
    found: Counter[tuple[int, int]] = Counter()
    for send in np.flatnonzero(program.operation_kind == OperationKind.SEND).tolist():
        first, past = int(program.first[send]), int(program.first[send] + program.count[send])
        key = (int(program.operation_rank[send]), int(program.peer[send]))
        found[key] += past * size // program.n_chunks - first * size // program.n_chunks
    return dict(found)


def bytes_between(traces: Sequence[bytes]) -> dict[tuple[int, int], int]:
    """Bytes from rank to rank, as the nodes that send say."""
    found: Counter[tuple[int, int]] = Counter()
    for node in (node for data in traces for node in parse_chakra(data) if node.kind == "SEND"):
        found[node.source, node.target] += node.size
    return dict(found)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_traces_move_what_the_program_moves(kind: CollectiveKind) -> None:
    for seed in range(6):
        program = lower(*random_case(seed, kind), channels=1 + seed % 2)
        traces = emit_chakra(program, 100_003)
        report = interpret_chakra(traces)
        assert report.violations == ()
        assert report.n_ranks == program.n_ranks
        assert bytes_between(traces) == moved(program, 100_003)


def test_alltoall() -> None:
    topology = torus(3, 3)
    collective = alltoall(topology)
    program = lower_exchange(topology, collective, over_shortest_paths(topology, collective))
    traces = emit_chakra(program, 2**20)
    assert interpret_chakra(traces).violations == ()
    assert bytes_between(traces) == moved(program, 2**20)


def small() -> Program:
    return lower(*random_case(4, CollectiveKind.ALLREDUCE))


def test_golden_trace() -> None:
    assert emit_chakra(small(), 4096, name="small")[0] == GOLDEN.read_bytes()


def test_messages_of_a_trace_are_length_delimited() -> None:
    """Fields by the schema's numbers: the metadata's version is field 1, a string (wire type 2)."""
    first = emit_chakra(small(), 4096)[0]
    assert first[1:3] == bytes([0x0A, 5])
    assert first[3:8] == b"0.0.4"


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x7f", b"\xff" * 9, b"\x05hello", b"\x80" * 100, b"\x02\x0a\x00"]
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        interpret_chakra([data])


def test_every_truncation_is_refused_or_noticed() -> None:
    traces = emit_chakra(small(), 4096)
    for length in range(len(traces[0])):
        try:
            assert interpret_chakra([traces[0][:length], *traces[1:]]).violations
        except FormatError:
            continue


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_that_cannot_be(size: int) -> None:
    with pytest.raises(FormatError, match=f"size {size}"):
        emit_chakra(small(), size)
