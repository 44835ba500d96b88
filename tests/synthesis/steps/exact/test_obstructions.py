"""Problems of exact synthesis and why some have no schedule: numbers at their limits, cuts by brute force."""

from __future__ import annotations

import re
from itertools import chain, combinations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.synthesis.steps.exact import exact_problem as module
from treadle.synthesis.steps.exact.exact_problem import ExactProblem, FreeRounds, exact_problem
from treadle.synthesis.steps.exact.obstruction import Obstruction, find_obstruction, obstruction_of
from treadle.synthesis.steps.exact.semiregular import _generated, _is_semiregular
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder


def uneven() -> Topology:
    """0 to 1 of 4 B/s, 1 to 2 of 6, 2 to 0 of 2, and 0 to 2 of 2; a loop at 1 of 3."""
    builder = TopologyBuilder("uneven")
    for name in "abc":
        builder.compute(name)
    for ends, width in (("ab", 4), ("bc", 6), ("ca", 2), ("ac", 2)):
        builder.link(ends[0], ends[1], width)
    return builder.build()


def posed(**changes: object) -> ExactProblem:
    values: dict[str, object] = {"chunks": 2, "rounds": (1, 3)}
    homes = changes.pop("homes", (0, 1, 2))
    return exact_problem(uneven(), homes, **{**values, **changes})  # type: ignore[arg-type]


def test_numbers_of_a_problem() -> None:
    problem = posed()
    assert problem.capacity == (2, 3, 1, 1)
    assert (problem.tails, problem.heads, problem.links) == ((0, 1, 2, 0), (1, 2, 0, 2), (0, 1, 2, 3))
    assert (problem.steps, problem.total_rounds, problem.late_rounds) == (2, 4, (1, 3))
    assert problem.distances.tolist() == [[0, 1, 1], [2, 0, 1], [1, 2, 0]]
    assert posed(rounds=(5,)).distances.tolist() == [[0, 1, 1], [2, 0, 1], [1, 2, 0]]
    free = posed(rounds=FreeRounds(3, 7))
    assert (free.steps, free.total_rounds, free.late_rounds) == (3, 7, (1, 1, 5))
    looped = from_arcs("looped", [0, 1, 1], [1, 1, 0], n=2)
    problem = exact_problem(looped, [1, 1, 0], chunks=1, rounds=[1])
    assert (problem.links, problem.capacity, problem.homes) == ((0, 2), (1, 1), (1, 1, 0))
    path = exact_problem(parse("path(5)"), [0], chunks=1, rounds=[1, 1])
    assert path.distances[0].tolist() == [0, 1, 2, 3, 3]  # 3: beyond two steps


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"homes": ()}, "shard owners must be ranks from 0 to 2"),
        ({"homes": (0, 3)}, "shard owners must be ranks from 0 to 2"),
        ({"homes": (-1,)}, "shard owners must be ranks from 0 to 2"),
        ({"chunks": 0}, "chunks must be 1 to 65536, found 0"),
        ({"chunks": 65537}, "chunks must be 1 to 65536, found 65537"),
        ({"rounds": ()}, "rounds []; expected at least 1 for each step"),
        ({"rounds": (2, 0)}, "rounds [2, 0]; expected at least 1 for each step"),
        ({"rounds": (2**24, 1)}, "rounds [16777216, 1]; expected at least 1 for each step"),
        (
            {"rounds": FreeRounds(3, 2)},
            "2 rounds in 3 steps; expected at least one step and one round per step",
        ),
        (
            {"rounds": FreeRounds(0, 2)},
            "2 rounds in 0 steps; expected at least one step and one round per step",
        ),
        (
            {"rounds": FreeRounds(1, 2**24 + 1)},
            "16777217 rounds in 1 steps; expected at least one step and one round per step",
        ),
    ],
)
def test_numbers_out_of_range(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^exact synthesis: {re.escape(words)}$"):
        posed(**changes)


def test_numbers_at_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    posed(chunks=65536, rounds=(2**24,))
    posed(rounds=FreeRounds(2, 2))
    posed(rounds=FreeRounds(1, 2**24))
    monkeypatch.setattr(module, "MAX_VARIABLES", 3 * 2 * 4 * 2)
    posed()
    message = (
        "exact synthesis: 72 send variables, at most 48; take fewer chunks or steps, or the bfb algorithm"
    )
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        posed(rounds=(1, 1, 1))


def test_fabrics_that_are_not_served() -> None:
    def words(topology: Topology) -> str:
        with pytest.raises(ScheduleError) as caught:
            exact_problem(topology, [0], chunks=1, rounds=[1])
        return str(caught.value)

    builder = TopologyBuilder("switched")
    builder.compute("a")
    builder.switch("s")
    builder.switch("t")
    builder.duplex("a", "s", 1)
    builder.duplex("s", "t", 1)
    assert words(builder.build()) == (
        "exact synthesis: switched has 2 switches; it needs a direct-connect fabric"
    )
    builder = TopologyBuilder("capped")
    builder.compute("a", injection_bytes_per_s=1)
    builder.compute("b")
    assert words(builder.build()) == "exact synthesis: capped has injection caps, which it cannot keep"
    builder = TopologyBuilder("single")
    builder.compute("a")
    assert words(builder.build()) == "exact synthesis: single has fewer than 2 nodes"


def test_what_must_enter_and_what_can() -> None:
    """Shards of 0 and 1 into 2: by 1 to 2 in both steps 3 * 4, by 0 to 2 1 * 4."""
    problem = posed(chunks=8)
    assert obstruction_of(problem, (2,), (0, 1)) is None
    problem = posed(chunks=9)
    assert obstruction_of(problem, (2,), (0, 1)) == Obstruction((2,), (0, 1), 18, 16)
    # that of 0 alone: by 1 only in the second step, 3 * 3, by 0 in both
    assert obstruction_of(posed(chunks=13), (2,), (0,)) is None
    assert obstruction_of(posed(chunks=14), (2,), (0,)) == Obstruction((2,), (0,), 14, 13)
    # into 1 and 2 together all from 0: 2 * 4 and 1 * 4; the link between them does not count
    assert obstruction_of(posed(chunks=13), (1, 2), (0,)) == Obstruction((1, 2), (0,), 13, 12)
    message = "obstruction: the owner of a shard is among the nodes that the shard has to enter"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        obstruction_of(problem, (1, 2), (0, 2))


def every(shards: list[int]) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(shards, size) for size in range(1, len(shards) + 1)))


@pytest.mark.parametrize("seed", range(20))
def test_single_nodes_are_obstructed_just_where_some_shards_are_too_many(seed: int) -> None:
    """Hall's condition: all sets of shards are tried for every node."""
    rng = np.random.default_rng([seed, 31])
    n = 4
    tails = [*range(n), *rng.integers(0, n, 4).tolist()]
    heads = [*((node + 1) % n for node in range(n)), *rng.integers(0, n, 4).tolist()]
    homes = rng.integers(0, n, 5).tolist()
    rounds = rng.integers(1, 4, int(rng.integers(2, 4))).tolist()
    topology = from_arcs("random", tails, heads, n=n)
    problem = exact_problem(topology, homes, chunks=int(rng.integers(1, 4)), rounds=rounds)
    obstructed = [
        node
        for node in range(n)
        if any(
            obstruction_of(problem, (node,), shards) is not None
            for shards in every([shard for shard, home in enumerate(homes) if home != node])
        )
    ]
    found = find_obstruction(problem)
    if not obstructed:
        assert found is None
    else:
        assert found is not None
        assert found.nodes == (obstructed[0],)
        assert found == obstruction_of(problem, found.nodes, found.shards)
        assert found.supply < found.demand == problem.chunks * len(found.shards)


def test_given_cuts_are_tried_after_single_nodes() -> None:
    """Two pairs with wide links inside, narrow ones between: enough for each node, not for both."""
    builder = TopologyBuilder("pairs")
    for name in "abcd":
        builder.compute(name)
    for one, other, width in (("a", "b", 5), ("c", "d", 5), ("a", "c", 1), ("b", "d", 1)):
        builder.duplex(one, other, width)
    pairs = builder.build()
    problem = exact_problem(pairs, range(4), chunks=3, rounds=(1, 1, 1))
    assert find_obstruction(problem, ((0, 1, 2, 3), (2, 3), (0, 1))) is None
    problem = exact_problem(pairs, range(4), chunks=4, rounds=(1, 1, 1))
    assert find_obstruction(problem) is None
    assert find_obstruction(problem, ((0, 1, 2, 3), (0, 2))) is None
    assert find_obstruction(problem, ((0, 2), (2, 3), (0, 1))) == Obstruction((2, 3), (0, 1), 8, 6)


def test_permutations_whose_powers_fix_no_node() -> None:
    assert _is_semiregular((1, 2, 0, 4, 5, 3))
    assert _is_semiregular((0, 1, 2))
    assert not _is_semiregular((1, 0, 2))
    assert not _is_semiregular((1, 0, 3, 4, 2))
    turn, swap = (1, 2, 3, 0), (3, 2, 1, 0)
    assert _generated(4, [turn]) == [(0, 1, 2, 3), turn, (2, 3, 0, 1), (3, 0, 1, 2)]
    assert _generated(4, [turn, swap]) is None  # turned once and mirrored, two nodes stay
    assert _generated(4, [(2, 3, 0, 1), swap]) == [(0, 1, 2, 3), (2, 3, 0, 1), swap, (1, 0, 3, 2)]
    assert _generated(3, []) == [(0, 1, 2)]
