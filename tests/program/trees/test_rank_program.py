"""Programs of single ranks: put together they are a program of all ranks that delivers."""

from __future__ import annotations

import pytest

from reference.program_check import check_program
from samples.program_cases import random_case, reference_errors
from shortcuts.rank_parts import union
from treadle.program.program import OperationKind, Program
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind, on_all_ranks
from treadle.schedules.factored import FactoredSchedule
from treadle.synthesis.trees import TreeBudget
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.topologies import Topology, parse
from treadle.unsupported import Unsupported


def moved(program: Program) -> set[tuple[int, int, int, int, tuple[int, ...]]]:
    """Sender, receiver, channel, chunk and links of everything sent."""
    return {
        (owner, peer, channel, chunk, tuple(program.links(path)))
        for owner, kind, peer, channel, path, first, count in zip(
            program.operation_rank.tolist(),
            program.operation_kind.tolist(),
            program.peer.tolist(),
            program.channel.tolist(),
            program.path.tolist(),
            program.first.tolist(),
            program.count.tolist(),
            strict=True,
        )
        if kind == OperationKind.SEND
        for chunk in range(first, first + count)
    }


def factored(fabric: str, kind: str, trees: int | None) -> tuple[Topology, Collective, FactoredSchedule]:
    topology = parse(fabric)
    spanning = CollectiveKind(kind)
    collective = on_all_ranks(topology, spanning, root=1 if spanning.is_rooted else None)
    found = decompose(topology, collective, budget=TreeBudget(trees=trees))
    assert not isinstance(found, Unsupported), found
    return topology, collective, found.schedule


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("in_place", [False, True])
def test_parts_of_random_forests_make_correct_programs(kind: CollectiveKind, in_place: bool) -> None:
    for seed in range(5):
        topology, collective, schedule = random_case(seed, kind)
        parts = [
            lower(topology, collective, schedule, rank=rank, channels=1 + seed % 3, in_place=in_place)
            for rank in range(collective.n_ranks)
        ]
        program = union(parts)
        assert check_program(program) == ()
        assert reference_errors(program) == []


def test_a_part_has_the_operations_of_one_rank() -> None:
    topology, collective, schedule = random_case(1, CollectiveKind.ALLGATHER)
    program = lower(topology, collective, schedule, rank=1)
    assert program.n_ranks == collective.n_ranks
    assert [len(program.operations(rank)) > 0 for rank in range(program.n_ranks)] == [
        rank == 1 for rank in range(program.n_ranks)
    ]


FACTORED = [
    ("dgx_a100(2, gpus_per_box=4)", "allgather", 3),
    ("pods(2, 2, gpus_per_box=4, oversubscription=2)", "allreduce", None),  # pieces in pieces
    ("mi250(2, 8)", "reduce-scatter", 2),
    ("dgx_h100(2, gpus_per_box=4)", "allgather", None),  # two layers
    ('with_failed_nodes(dgx_a100_flat(3, gpus_per_box=4), "box0.gpu0")', "allgather", None),  # relays
    ('with_failed_nodes(dgx_a100(4, gpus_per_box=4), "box0.nic0")', "allgather", None),  # planes
    ("dgx_h100(2)", "broadcast", None),
    ("dgx_h100(2)", "reduce", None),
]


@pytest.mark.parametrize(
    ("fabric", "kind", "trees", "channels", "in_place"),
    [*((*one, 1, False) for one in FACTORED), *((*one, 3, True) for one in FACTORED[:5])],
)
def test_parts_of_factored_schedules_make_correct_programs(
    fabric: str, kind: str, trees: int | None, channels: int, in_place: bool
) -> None:
    topology, collective, schedule = factored(fabric, kind, trees)
    parts = [
        lower(topology, collective, schedule, rank=rank, channels=channels, in_place=in_place)
        for rank in range(collective.n_ranks)
    ]
    program = union(parts)
    assert check_program(program) == ()
    assert reference_errors(program) == []
    if channels == 1:
        whole = lower(topology, collective, schedule)
        assert whole == lower(topology, collective, schedule.explicit())
        scale = program.n_chunks // whole.n_chunks
        assert {(*row[:3], row[3] // scale, row[4]) for row in moved(program)} == moved(whole)
