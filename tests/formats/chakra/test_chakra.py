"""Chakra traces: played by the reader, mutated, hostile."""

from __future__ import annotations

from collections import Counter

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


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_traces_move_what_the_program_moves(kind: CollectiveKind) -> None:
    for seed in range(6):
        program = lower(*random_case(seed, kind), channels=1 + seed % 2)
        report = interpret_chakra(emit_chakra(program, 100_003))
        assert report.violations == ()
        assert report.n_ranks == program.n_ranks
        assert report.bytes_between == moved(program, 100_003)


def test_alltoall() -> None:
    topology = torus(3, 3)
    collective = alltoall(topology)
    program = lower_exchange(topology, collective, over_shortest_paths(topology, collective))
    report = interpret_chakra(emit_chakra(program, 2**20))
    assert report.violations == ()
    assert report.bytes_between == moved(program, 2**20)


def small() -> Program:
    return lower(*random_case(4, CollectiveKind.ALLREDUCE))


def test_golden_trace() -> None:
    assert emit_chakra(small(), 4096, name="small")[0] == GOLDEN.read_bytes()


def test_sums_wait_for_what_they_add() -> None:
    for trace in emit_chakra(small(), 4096):
        nodes = {node.number: node for node in parse_chakra(trace)}
        sums = [node for node in nodes.values() if node.kind == "COMP"]
        assert sums
        assert all(any(nodes[wait].kind == "RECEIVE" for wait in node.waits) for node in sums)


def test_messages_of_a_trace_are_length_delimited() -> None:
    """Fields by the schema's numbers: the metadata's version is field 1, a string (wire type 2)."""
    first = emit_chakra(small(), 4096)[0]
    assert first[1:3] == bytes([0x0A, 5])
    assert first[3:8] == b"0.0.4"


def test_mutants_are_noticed() -> None:
    traces = list(emit_chakra(small(), 4096))
    other = list(emit_chakra(small(), 8192))
    assert interpret_chakra([other[0], *traces[1:]]).violations
    assert interpret_chakra([traces[1], *traces[1:]]).violations
    assert interpret_chakra(traces[:-1]).violations
    for rank, trace in enumerate(traces):
        pieces = []
        place = 0
        while place < len(trace):
            length, place = trace[place], place + 1
            assert length < 128
            pieces.append(bytes([length]) + trace[place : place + length])
            place += length
        for drop in range(1, len(pieces)):
            mutant = b"".join(pieces[:drop] + pieces[drop + 1 :])
            changed = [*traces[:rank], mutant, *traces[rank + 1 :]]
            nodes = parse_chakra(mutant)
            waited = {wait for node in nodes for wait in node.waits}
            kept = {node.number for node in nodes}
            lost_sum = kept | waited == kept and len(parse_chakra(trace)) - len(nodes) == 1
            assert interpret_chakra(changed).violations or lost_sum


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
