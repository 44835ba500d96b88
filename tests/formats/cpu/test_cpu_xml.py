"""CPU XML: executed by the independent interpreter without any buffering, mutated, hostile."""

from __future__ import annotations

import re

import pytest

from samples.exchange_samples import alltoall, over_shortest_paths, random_demands
from samples.program_cases import random_case
from treadle.errors import FormatError, ScheduleError
from treadle.formats.cpu.interpreter import interpret_cpu_xml
from treadle.formats.cpu.writer import emit_cpu_xml
from treadle.program.passes import replicate
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.program.steps.exchange_lowering import lower_exchange
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.topologies.catalogue.graphs import torus


def small(kind: CollectiveKind = CollectiveKind.ALLREDUCE, seed: int = 4) -> Program:
    return lower(*random_case(seed, kind))


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_text_does_what_the_collective_asks(kind: CollectiveKind) -> None:
    for seed in range(24):
        program = lower(*random_case(seed, kind), in_place=bool(seed % 2), merge=seed % 3 > 0)
        program = replicate(program, 1 + seed % 2)
        report = interpret_cpu_xml(emit_cpu_xml(program))
        assert report.violations == ()
        assert (report.n_ranks, report.n_chunks) == (program.n_ranks, program.n_chunks)


@pytest.mark.parametrize("uneven", [False, True])
def test_alltoall(uneven: bool) -> None:
    topology = torus(3, 3)
    collective = alltoall(topology, random_demands(9, 2) if uneven else None)
    program = lower_exchange(topology, collective, over_shortest_paths(topology, collective))
    assert interpret_cpu_xml(emit_cpu_xml(program)).violations == ()


def test_violations_name_the_line() -> None:
    lines = emit_cpu_xml(small(CollectiveKind.ALLREDUCE)).splitlines()
    place = max(i for i, line in enumerate(lines) if "<send" in line)
    lines[place] = re.sub(r'chunk="\d+"', 'chunk="999"', lines[place])
    found = interpret_cpu_xml("\n".join(lines)).violations
    assert any(f"line {place + 1}: buffer" in one and "lacks chunks 999" in one for one in found), found


def broken(lines: list[str]) -> bool:
    try:
        return bool(interpret_cpu_xml("\n".join(lines)).violations)
    except FormatError:
        return True


def larger(line: str, factor: int) -> str:
    """A line of a text whose every chunk is so many."""
    line = re.sub(
        r' (chunks|chunk|cnt|slots|slot)="(\d+)"', lambda m: f' {m[1]}="{int(m[2]) * factor}"', line
    )
    return re.sub(r"(\d+)-(\d+)", lambda m: f"{int(m[1]) * factor}-{(int(m[2]) + 1) * factor - 1}", line)


@pytest.mark.parametrize("kind", [CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER])
def test_a_billion_chunks_are_judged_as_one_is(kind: CollectiveKind) -> None:
    lines = emit_cpu_xml(small(kind)).splitlines()
    many = [larger(line, 10**9) for line in lines]
    assert not broken(many)
    for i in range(len(lines)):
        if re.match(r"\s+<(send|recv|sync|copy|reduce)", lines[i]):
            assert broken([*many[:i], *many[i + 1 :]]) == broken([*lines[:i], *lines[i + 1 :]]), lines[i]
        if 'chunk="' in lines[i]:  # one of the billion too far
            moved = re.sub(r' chunk="(\d+)"', lambda match: f' chunk="{int(match[1]) + 1}"', many[i])
            assert broken([*many[:i], moved, *many[i + 1 :]]), lines[i]


def test_the_wrong_collective_is_noticed() -> None:
    text = emit_cpu_xml(small())
    for name in ("allgather", "reduce-scatter", "alltoall"):
        changed = text.replace('collective="allreduce"', f'collective="{name}"')
        assert interpret_cpu_xml(changed).violations


def test_ranks_that_send_and_receive_in_different_orders_are_refused() -> None:
    """CPU XML knows no channels: the i-th send to a rank meets the i-th receive there."""
    send, receive = OperationKind.SEND, OperationKind.RECEIVE
    sends = [Operation(send, chunk, 1, peer=1, channel=chunk) for chunk in (0, 1)]
    receives = [Operation(receive, chunk, 1, peer=0, channel=chunk) for chunk in (0, 1)]
    copy = Operation(OperationKind.COPY, 0, 2)

    def written(arrive: list[Operation]) -> str:
        program = program_from_operations(
            CollectiveKind.BROADCAST, [[copy, *sends], arrive], n_chunks=2, shard_offset=[0, 2, 2], root=0
        )
        return emit_cpu_xml(program)

    assert interpret_cpu_xml(written(receives)).violations == ()
    with pytest.raises(ScheduleError) as caught:
        written(receives[::-1])
    assert str(caught.value) == (
        "CPU XML: ranks 0->1 send and receive in different orders; lower with one channel"
    )
