"""Programs of sends with times: they keep a program's rules and do on real data what the sends say."""

from __future__ import annotations

import numpy as np
import pytest

from reference.program_check import check_program
from samples.foreign import foreign_files
from shortcuts.executed import execute
from treadle.errors import ScheduleError
from treadle.formats.taccl.traffic import traffic as taccl_traffic
from treadle.formats.teccl.interpreter import interpret
from treadle.formats.teccl.traffic import traffic as teccl_traffic
from treadle.formats.verdict import Terms
from treadle.program.foreign.timed_sends import SendsFrame, TimedSend, program_of_sends
from treadle.program.program import Program
from treadle.schedules.collective import CollectiveKind


def check_data(program: Program, *, elements: int = 3) -> None:
    """Run on distinct integers and compare with the collective's definition."""
    assert check_program(program) == ()
    n, size = program.n_ranks, program.n_chunks * elements
    kind = program.kind
    rng = np.random.default_rng(1)
    whole = rng.integers(0, 2**20, size=(n, size)).astype(np.int32)
    shard = size // n
    if kind is CollectiveKind.ALLGATHER:
        outputs = execute(program, [whole[r, :shard] for r in range(n)])
        wanted = [np.concatenate([whole[r, :shard] for r in range(n)])] * n
    elif kind is CollectiveKind.ALLTOALL:
        outputs = execute(program, list(whole))
        wanted = [np.concatenate([whole[s, r * shard : (r + 1) * shard] for s in range(n)]) for r in range(n)]
    else:
        outputs = execute(program, list(whole))
        total = whole.sum(axis=0)
        scattered = kind is CollectiveKind.REDUCE_SCATTER
        wanted = [total[r * shard : (r + 1) * shard] if scattered else total for r in range(n)]
    for found, expected in zip(outputs, wanted, strict=True):
        assert found is not None
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "made",
    [
        foreign_files.taccl_ring_allgather(5),
        foreign_files.taccl_ring_reduce_scatter(5),
        foreign_files.taccl_ring_allreduce(4),
        foreign_files.taccl_relayed_alltoall(4),
    ],
    ids=["allgather", "reduce-scatter", "allreduce", "alltoall"],
)
def test_taccl_programs_do_what_their_collective_asks(made: foreign_files.Json) -> None:
    found = taccl_traffic(foreign_files.as_bytes(made), Terms())
    assert found.is_runnable
    check_data(found.program)


@pytest.mark.parametrize(
    "made", [foreign_files.teccl_star_allgather(4), foreign_files.teccl_ring_alltoall()], ids=["ag", "a2a"]
)
def test_teccl_programs_do_what_their_collective_asks(made: foreign_files.Json) -> None:
    check_data(teccl_traffic(foreign_files.as_bytes(made), Terms()).program)


@pytest.mark.parametrize(
    ("one", "other", "chunks"),
    [
        ("0.5", "0.5", 8),
        ("0.333333", "0.666667", 12),
        ("0.341935", "0.658065", 4000),
        ("0.99995", "0.0001", 4),
    ],
)
def test_volumes_of_a_solver_become_whole_parts(one: str, other: str, chunks: int) -> None:
    """Simple fractions are taken as such, others rounded to thousandths; nothing is lost, nothing twice."""
    sample = foreign_files.teccl_ring_alltoall()
    for routes in sample["8-Chunk paths"].values():
        for route, volume in zip(routes, (one, other), strict=False):
            if len(routes) > 1:
                route[:] = [[epoch, text.replace("volume 0.5", f"volume {volume}")] for epoch, text in route]
    data = foreign_files.as_bytes(sample)
    assert interpret([data], Terms()).violations == ()
    found = teccl_traffic(data, Terms())
    assert found.program.n_chunks == chunks
    assert any("rounded" in note for note in found.notes) == (chunks == 4000)
    check_data(found.program, elements=1)


def test_names_on_the_way_stay_with_their_sends() -> None:
    found = teccl_traffic(foreign_files.as_bytes(foreign_files.teccl_star_allgather(3)), Terms())
    assert len(found.ways) == 6
    assert set(found.ways.values()) == {("0",)}


def test_what_has_not_come_cannot_be_sent() -> None:
    frame = SendsFrame(CollectiveKind.ALLGATHER, 3, 3, [0, 1, 2, 3])
    with pytest.raises(ScheduleError, match="rank 1 sends chunk 0 to rank 2: it has not come there by then"):
        program_of_sends(frame, [TimedSend(0, 0, 1, 0, 1), TimedSend(0, 1, 2, 0, 1)])
    with pytest.raises(ScheduleError, match="no such chunks"):
        program_of_sends(frame, [TimedSend(0, 0, 1, 2, 2)])


def test_a_range_that_came_in_parts_is_sent_in_parts() -> None:
    frame = SendsFrame(CollectiveKind.BROADCAST, 3, 4, [0, 4, 4, 4], 0)
    sends = [TimedSend(0, 0, 1, 0, 1), TimedSend(1, 0, 1, 1, 3), TimedSend(2, 1, 2, 0, 4)]
    program = program_of_sends(frame, sends).program
    assert check_program(program) == ()
    outputs = execute(program, [np.arange(4, dtype=np.int32), *[np.zeros(0, dtype=np.int32)] * 2])
    assert [found.tolist() for found in outputs if found is not None] == [[0, 1, 2, 3]] * 3
