"""Boxes of direct links: few low trees in the box, directly between ranks of equal place across boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.synthesis.scheduler import tried_with
from treadle.synthesis.sizes.box_phases import across_and_in_boxes
from treadle.synthesis.sizes.tree_steps import steps_of_trees
from treadle.synthesis.trees.pipeline import synthesise
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies.topology import Topology

_NAME = "box-trees"
_MOST_TREES, _PIECES, _PARTS = 4, 8, 5


def _trials(_: Topology, collective: Collective) -> Sequence[Mapping[str, object]]:
    """One tree and the best few, in one piece and in several; sums in parts of steps too."""
    found: list[Mapping[str, object]] = [
        {"chunks": 1},
        {"trees": 1, "chunks": 1},
        {"trees": 1},
        {"chunks": 2 * _PIECES},
    ]
    if collective.kind is CollectiveKind.REDUCE_SCATTER:
        found += [{"chunks": pieces, "parts": _PARTS} for pieces in (_PIECES, 3 * _PIECES // 2)]
    return found


@tried_with(_trials)
def box_trees(
    topology: Topology,
    collective: Collective,
    *,
    trees: int | None = None,
    chunks: int | None = None,
    parts: int | None = None,
) -> StepSchedule:
    """Across boxes directly among ranks of equal place, then over few low trees in each box.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce of equal shards.
    trees : int, optional
        Per root in the box; default the best number up to 4.
    chunks : int, optional
        Pieces of the data that follow each other, default 8. Messages across of a piece and in the boxes of
        others then go at the same time.
    parts : int, optional
        Of each step, default 1: of several, what others wait for most goes first (`urgent_first`).

    Raises
    ------
    ScheduleError
        If boxes differ in size, or links between ranks do not join them.
    """
    budget = TreeBudget(trees=trees) if trees is not None else TreeBudget(max_trees=_MOST_TREES)

    def gather(box: Topology) -> Steps:
        found = synthesise(box, on_all_ranks(box, CollectiveKind.ALLGATHER), budget=budget).trees
        assert found.broadcast is not None
        return steps_of_trees(found.broadcast)

    return across_and_in_boxes(
        _NAME,
        topology,
        collective,
        gather,
        pieces=_PIECES if chunks is None else chunks,
        parts=1 if parts is None else parts,
    )
