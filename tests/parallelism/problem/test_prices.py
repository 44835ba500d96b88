"""Tables of seconds hold what routes take."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from parallelism.state.shards_on_ranks import all_shardings
from treadle.errors import ScheduleError
from treadle.parallelism.problem.prices import move_arrays, seconds_between
from treadle.parallelism.state.sharding import Sharding, axis_sizes
from treadle.parallelism.state.transitions import Transitions
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts


def drawn_costs(mesh: Mesh, seed: int) -> AlphaBetaCosts:
    rng = np.random.default_rng(seed)
    names = mesh.axis_names
    subsets = [axes for n in range(1, len(names) + 1) for axes in combinations(names, n)]
    return AlphaBetaCosts(
        3, {(kind, axes): int(rng.integers(1, 40)) for kind in CollectiveKind for axes in subsets}
    )


@pytest.mark.parametrize(("mesh", "shape"), [
    (Mesh((2,), ("a",)), (4, 3)),
    (Mesh((4, 2), ("a", "b")), (8, 4, 3)),
    (Mesh((2, 1, 2, 3), ("a", "idle", "b", "c")), (12, 4)),
    (Mesh((2, 2, 2), ("a", "b", "c")), (8,)),
])  # fmt: skip
def test_tables_hold_what_routes_take(mesh: Mesh, shape: tuple[int, ...]) -> None:
    sizes, costs = axis_sizes(mesh), drawn_costs(mesh, len(shape))
    states = all_shardings(shape, sizes)
    table = seconds_between(states, states[::-1], shape=shape, element_bytes=2, sizes=sizes, costs=costs)
    transitions = Transitions(mesh, costs, shape, 2)
    for row, source in zip(table, states, strict=True):
        some = slice(len(source.axes), None, 3)
        found = [float(transitions.cheapest(source, target).seconds) for target in states[::-1][some]]
        assert row[some].tolist() == pytest.approx(found, rel=1e-12)


def test_moves_are_laid_out_for_every_sharding() -> None:
    sizes = {"a": 2, "b": 3, "c": 5}
    arrays = move_arrays(tuple(sizes.items()), 2)
    assert {place for place in arrays.places if isinstance(place, Sharding)} == set(
        all_shardings((30, 30), sizes)
    )
    assert (np.diff(arrays.heads) >= 0).all()


def test_a_state_that_does_not_divide_is_refused() -> None:
    mesh = Mesh((4,), ("a",))
    with pytest.raises(ScheduleError, match="dimension 0 of 6 over 4 ranks"):
        seconds_between(
            [Sharding(((),))], [Sharding((("a",),))],
            shape=(6,), element_bytes=2, sizes=axis_sizes(mesh), costs=drawn_costs(mesh, 0),
        )  # fmt: skip
