"""The verifier accepts hand-made steps; on thousands of mutants it agrees with a slow checker."""

from __future__ import annotations

import pytest

from samples import step_samples as samples
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import Send, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.verification.schedules import Report, ViolationKind, verify

ALLGATHER, REDUCE_SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER


def kinds(report: Report) -> set[ViolationKind]:
    return {violation.kind for violation in report.violations}


# --- accepted ----------------------------------------------------------------------------------------------


# --- rejected ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_chunks", [1, 8, 9, 64, 65, 130])
def test_every_single_chunk_is_minded(n_chunks: int) -> None:
    """Two ranks exchange chunk by chunk; each chunk in turn is forgotten, or sent twice."""
    topology = samples.topology_of([(0, 1), (1, 0)], n=2)
    for kind, direction in ((ALLGATHER, Direction.BROADCAST), (REDUCE_SCATTER, Direction.REDUCE)):
        reduces = kind is REDUCE_SCATTER
        sends = [(v, v ^ reduces, 0, c, c + 1) for c in range(n_chunks) for v in (0, 1)]

        def verdict(
            sends: list[Send], kind: CollectiveKind = kind, direction: Direction = direction
        ) -> set[ViolationKind]:
            schedule = samples.schedule_of(kind, steps_from_sends(direction, 2, n_chunks, sends))
            return kinds(verify(topology, Collective(kind, (0, 1)), schedule))

        assert verdict(sends) == set()
        for i in range(0, 2 * n_chunks, 1 + n_chunks // 16):
            assert verdict(sends[:i] + sends[i + 1 :]) == {ViolationKind.DELIVERY}
            assert verdict([*sends, sends[i]]) == ({ViolationKind.DOUBLE} if reduces else set())
        for i in (2 * n_chunks - 1, min(126, 2 * n_chunks - 2), min(128, 2 * n_chunks - 2)):
            assert verdict(sends[:i] + sends[i + 1 :]) == {ViolationKind.DELIVERY}


# --- what the messages say ---------------------------------------------------------------------------------


def test_forwarder_has_nothing_of_its_own() -> None:
    """Ranks 0 and 2, forwarder 1 between them: it passes on a sum only after one arrived."""
    topology = samples.topology_of([(2, 1), (1, 0), (0, 1), (1, 2)], n=3)
    collective = Collective(CollectiveKind.REDUCE, (0, 2), root=0, forwarders=(1,))
    for sends, wrong in (
        ([(0, 0, 0, 0, 1), (0, 1, 1, 0, 1)], set()),
        ([(0, 0, 0, 0, 1), (0, 1, 0, 0, 1), (0, 1, 1, 0, 1)], {ViolationKind.HELD}),
        ([(0, 0, 0, 0, 1), (0, 1, 1, 0, 1), (0, 1, 2, 0, 1)], {ViolationKind.DOUBLE}),
    ):
        steps = steps_from_sends(Direction.REDUCE, 2, 1, sends, homes=[0])
        schedule = samples.schedule_of(CollectiveKind.REDUCE, steps)
        assert samples.is_correct(topology, collective, schedule) == (not wrong)
        assert kinds(verify(topology, collective, schedule)) >= wrong
        assert verify(topology, collective, schedule).is_ok == (not wrong)


# --- claims ------------------------------------------------------------------------------------------------
