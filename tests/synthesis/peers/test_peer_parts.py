"""Parts of the peers' schedulers: who takes which link, columns, rows and limits of the programs."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.peers import tacos as tacos_module
from treadle.synthesis.peers import teccl_exchange as exchange_module
from treadle.synthesis.peers import teccl_gather as gather_module
from treadle.synthesis.peers.tacos import DEFAULT_CHUNKS, TRIALS, _matched, random_schedule, tacos
from treadle.synthesis.peers.teccl_exchange import _ExchangeProgram, _least_epochs, _slots, teccl_exchange
from treadle.synthesis.peers.teccl_gather import _flows, _schedule, teccl_gather
from treadle.synthesis.peers.tto import _trees, _turned, square_mesh
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder

ALLGATHER, ALLTOALL = CollectiveKind.ALLGATHER, CollectiveKind.ALLTOALL


def uneven() -> Topology:
    """From a to b over links of 1 and 3 B/s, back over one of 2, and a loop at b of 1."""
    builder = TopologyBuilder("uneven")
    for name in "ab":
        builder.compute(name)
    for ends, width in (("ab", 1), ("ab", 3), ("ba", 2)):
        builder.link(ends[0], ends[1], width)
    return builder.build()


@pytest.mark.parametrize("seed", range(4))
def test_the_link_that_is_done_earliest_brings_the_next_chunk(seed: int) -> None:
    """Links of 1, 3 and 2 slots: done at 1; at 1/3, 2/3 and 1; at 1/2 and 1. Those at 1 are alike."""
    holds = np.array([[True] * 8, [False] * 8])
    entering = [(4, 0), (2, 0), (0, 0)]
    slots = [2, 0, 3, 0, 1]
    lacking = list(range(8))
    found = _matched(lacking, entering, slots, holds, random.Random(seed))
    assert sorted(lacking) == list(range(8))
    order = [found[chunk] for chunk in lacking if chunk in found]
    assert order[:3] == [2, 0, 2]
    assert Counter(order[3:]) == {0: 1, 2: 1, 4: 1}
    assert len(found) == 6


def test_chunks_come_only_from_who_has_them() -> None:
    holds = np.array([[True, False, False], [False, True, False], [False, False, False]])
    found = _matched([0, 1, 2], [(5, 0), (7, 1)], [0] * 5 + [1, 0, 1], holds, random.Random(1))
    assert found == {0: 5, 1: 7}
    assert _matched([0], [], [], holds, random.Random(1)) == {}


def test_a_random_schedule_fills_links_by_their_bandwidth() -> None:
    """Five chunks to b over 1 + 3 in two steps, and five to a over 2 in three."""
    sends = random_schedule(uneven(), 5, random.Random(0))
    steps = [step for _, _, step, _, _ in sends]
    assert steps == sorted(steps)
    counts = Counter((step, link) for _, link, step, _, _ in sends)
    assert counts[0, 0] == 1
    assert counts[0, 1] == 3
    assert sum(counts[1, link] for link in (0, 1)) == 1
    assert [counts[step, 2] for step in range(3)] == [2, 2, 1]
    assert {(shard, low) for shard, _, _, low, _ in sends} == {(s, c) for s in (0, 1) for c in range(5)}
    assert all(high == low + 1 for *_, low, high in sends)
    # the loop brings nothing
    looped = from_arcs("looped", [0, 1, 1, 0], [1, 0, 1, 0], n=2)
    assert {link for _, link, *_ in random_schedule(looped, 2, random.Random(0))} == {0, 1}


def test_the_best_of_the_trials_is_taken() -> None:
    """As many steps as the least of eight random schedules; four chunks a shard by default."""
    torus = parse("torus(4, 4)")
    everyone = on_all_ranks(torus, ALLGATHER)
    assert (DEFAULT_CHUNKS, TRIALS) == (4, 8)
    for seed in range(3):
        draw = random.Random(seed)
        lengths = [random_schedule(torus, 4, draw)[-1][2] + 1 for _ in range(8)]
        found = tacos(torus, everyone, seed=seed)
        assert found.n_steps == min(lengths)
        assert found == tacos(torus, everyone, chunks=4, seed=seed)
    assert tacos(torus, everyone) == tacos(torus, everyone, seed=0)


def test_so_many_pairs_of_chunks_and_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = parse("ring(3)")
    everyone = on_all_ranks(ring, ALLGATHER)
    monkeypatch.setattr(tacos_module, "MAX_PLACES", 18)
    assert tacos(ring, everyone, chunks=2).broadcast is not None
    with pytest.raises(ScheduleError, match=r"^tacos: 3 chunks a shard, expected 1 to 2$"):
        tacos(ring, everyone, chunks=3)
    with pytest.raises(ScheduleError, match=r"^tacos: 10000000000000000000 chunks a shard, expected 1 to 2$"):
        tacos(ring, everyone, chunks=10**30)


def test_columns_of_the_gathering_program() -> None:
    """One way round three, two epochs, two chunks: at once from home, then from the next, never back home."""
    circle = from_arcs("circle", [0, 1, 2, 1], [1, 2, 0, 1], n=3)
    flows = _flows(circle, 2, 2)
    found = set(zip(flows.epoch.tolist(), flows.chunk.tolist(), flows.link.tolist(), strict=True))
    first = {(0, 2 * node + part, node) for node in range(3) for part in (0, 1)}
    again = {(1, chunk, link) for _, chunk, link in first}
    onward = {(1, 2 * node + part, (node + 1) % 3) for node in range(3) for part in (0, 1)}
    assert found == first | again | onward
    assert len(flows.link) == len(found)


def test_flows_that_bring_nothing_new_are_left_out() -> None:
    """Of three that bring chunk 0 to 1 and one from 2, which has it not yet, the first counts."""
    fabric = from_arcs("three", [0, 0, 1, 2], [1, 1, 2, 1], n=3)
    chunk, link, epoch = np.array([[0, 0, 0, 0, 0], [0, 1, 3, 2, 0], [0, 0, 0, 1, 1]], dtype=np.int32)
    flows = gather_module._Flows(chunk, link, epoch, np.zeros((3, 3), dtype=np.int32))
    made = _schedule(fabric, flows, np.array([True, True, True, True, True]), 1).broadcast
    assert made is not None
    assert (made.link.tolist(), made.send_steps().tolist()) == ([0, 2], [0, 1])
    made = _schedule(fabric, flows, np.array([False, True, True, True, True]), 1).broadcast
    assert made is not None
    assert made.link.tolist() == [1, 2]


def test_so_many_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring of three in one epoch has six flows, and each chunk has to cross two links at least."""
    ring = parse("ring(3)")
    everyone = on_all_ranks(ring, ALLGATHER)
    monkeypatch.setattr(gather_module, "MAX_FLOWS", 6)
    found = teccl_gather(ring, everyone)
    assert (found.schedule.n_steps, found.is_late) == (1, False)
    assert found.gap <= 0.01
    words = (
        "te-ccl: the program of ring(3) with {} chunks a shard has more than {} whole-numbered variables; "
        "expected a smaller fabric"
    )
    with pytest.raises(ScheduleError, match=f"^{re.escape(words.format(2, 6))}$"):
        teccl_gather(ring, everyone, chunks=2)
    with pytest.raises(ScheduleError, match=f"^{re.escape(words.format(0, 6))}$"):
        teccl_gather(ring, everyone, chunks=0)
    monkeypatch.setattr(gather_module, "MAX_FLOWS", 5)
    with pytest.raises(ScheduleError, match=f"^{re.escape(words.format(1, 5))}$"):
        teccl_gather(ring, everyone)


def demands(matrix: list[list[int]]) -> Collective:
    return Collective(ALLTOALL, tuple(range(len(matrix))), demands=Demands(np.array(matrix)))


def test_epochs_that_the_hops_fill() -> None:
    """Slots of 1, 3 and 2; of a loop none."""
    assert _slots(uneven()).tolist() == [1, 3, 2]
    assert _slots(from_arcs("looped", [0, 1, 1], [1, 0, 1], n=2)).tolist() == [1, 1, 0]
    # 5 + 4 units over one hop each: 9 of 6 * 5; with 4 chunks of a demand of 5, 36 of 30
    assert _least_epochs(uneven(), demands([[0, 5], [4, 0]]), 1) == 1
    assert _least_epochs(uneven(), demands([[0, 5], [4, 0]]), 3) == 1
    assert _least_epochs(uneven(), demands([[0, 5], [4, 0]]), 4) == 2
    path = parse("path(3)")  # 8 hops over 4 links
    assert _least_epochs(path, on_all_ranks(path, ALLTOALL), 1) == 2
    assert _least_epochs(path, on_all_ranks(path, ALLTOALL), 3) == 6


def test_steps_that_are_too_few_and_just_enough() -> None:
    path = parse("path(3)")
    everyone = on_all_ranks(path, ALLTOALL)
    assert teccl_exchange(path, everyone, steps=2).n_steps == 2
    message = "te-ccl-alltoall: 1 epochs, expected at least 2 (--steps)"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        teccl_exchange(path, everyone, steps=1)
    # by the hops two would do, but what b gets over its narrow link takes three
    builder = TopologyBuilder("narrow")
    for name in "abc":
        builder.compute(name)
    for ends, width in (("ab", 1), ("bc", 9), ("cb", 9), ("ca", 9), ("ac", 9), ("ba", 9)):
        builder.link(ends[0], ends[1], width)
    pulled = demands([[0, 3, 0], [0, 0, 1], [1, 0, 0]])
    narrow = builder.build()
    assert teccl_exchange(narrow, pulled, chunks=2).n_steps == 2


def test_so_many_variables_and_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks, two links, one epoch: two flows, two reads, nothing that waits."""
    pair = parse("complete(2)")
    everyone = on_all_ranks(pair, ALLTOALL)
    program = _ExchangeProgram(pair, everyone, 1, 1)
    assert (program.first_wait, program.first_read, program.n_columns) == (2, 2, 4)
    assert program.unit == 1
    # in two epochs: four flows, two that wait, four reads
    program = _ExchangeProgram(pair, everyone, 4, 2)
    assert (program.first_wait, program.first_read, program.n_columns) == (4, 6, 10)
    assert program.unit == 0.25
    monkeypatch.setattr(exchange_module, "MAX_VARIABLES", 4)
    assert teccl_exchange(pair, everyone).n_steps == 1
    monkeypatch.setattr(exchange_module, "MAX_VARIABLES", 3)
    message = (
        "te-ccl-alltoall: complete(2) in 1 epochs has 4 variables, at most 3 are practical; use fewer "
        "chunks, or --algorithm pipelined"
    )
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        teccl_exchange(pair, everyone)
    monkeypatch.setattr(exchange_module, "MAX_VARIABLES", 100)
    monkeypatch.setattr(exchange_module, "MAX_EPOCHS", 1)
    assert teccl_exchange(pair, everyone).n_steps == 1
    message = "te-ccl-alltoall: more than 1 epochs; expected fewer chunks"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        teccl_exchange(pair, everyone, steps=2)


def test_flows_meet_all_demands_in_time() -> None:
    """By definition: what a rank has read of another is what it was due, and links carry their slots."""
    fabric, due = uneven(), demands([[0, 5], [4, 0]])
    program = _ExchangeProgram(fabric, due, 4, 2)
    flow = program.solve()
    assert flow is not None
    assert flow.step_times.tolist() == [1.25, 1.25]  # 5/4 over 1 B/s
    carried = flow.by_step
    assert carried[:, 0, :2].sum() == pytest.approx(5)
    assert carried[:, 1, 2].sum() == pytest.approx(4)
    # the earlier the better: all that links can carry in the first epoch
    assert carried[0, 0].tolist() == pytest.approx([1.25, 3.75, 0])
    assert carried[0, 1].tolist() == pytest.approx([0, 0, 2.5])
    assert carried[1, 1, 2] == pytest.approx(1.5)
    assert _ExchangeProgram(fabric, due, 4, 1).solve() is None


def test_trees_of_a_mesh_of_two() -> None:
    """Places as (row, column): the spare corner is (1, 0); first down the first column, then along rows."""
    trees = list(_trees(2, is_rank=False))
    assert [units for _, units in trees] == [1, 1, 1]
    assert trees[0][0] == {(1, 0): (0, 0), (0, 1): (0, 0), (1, 1): (1, 0)}
    assert trees[1][0] == {(0, 0): (0, 1), (1, 1): (0, 1)}
    assert trees[2][0] == {(1, 0): (1, 1), (0, 0): (1, 0), (0, 1): (1, 1)}
    whole = list(_trees(2, is_rank=True))
    assert [units for _, units in whole] == [2, 1, 1, 2]
    assert whole[0][0] == trees[0][0]
    assert whole[1][0] == {**trees[1][0], (1, 0): (0, 0)}
    assert whole[2][0] == {**trees[1][0], (1, 0): (1, 1)}


def test_places_are_turned_so_that_the_spare_corner_is_the_last_row_s_first() -> None:
    places = [(row, column) for row in range(3) for column in range(3)]
    assert [_turned(3, 6)(place) for place in places] == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert [_turned(3, 0)(place) for place in places] == [6, 7, 8, 3, 4, 5, 0, 1, 2]
    assert [_turned(3, 8)(place) for place in places] == [2, 1, 0, 5, 4, 3, 8, 7, 6]
    assert [_turned(3, 2)(place) for place in places] == [8, 7, 6, 5, 4, 3, 2, 1, 0]


def test_meshes_that_are_served() -> None:
    def words(name: str, *spare: int) -> str:
        fabric = parse(name)
        ranks = tuple(node for node in range(fabric.n_nodes) if node not in spare)
        return str(square_mesh(fabric, Collective(CollectiveKind.ALLREDUCE, ranks, forwarders=spare)))

    assert words("mesh(3, 3)") == "None"
    assert [words("mesh(3, 3)", corner) for corner in (0, 2, 6, 8)] == ["None"] * 4
    corner = "tto: expected all nodes as ranks, or all but one corner, which forwards"
    assert corner.endswith(words("mesh(3, 3)", 1).removeprefix("tto: "))
    assert words("mesh(3, 3)", 4) == words("mesh(3, 3)", 0, 8) == words("mesh(3, 3)", 1) != "None"
    assert "not a square mesh" in words("mesh(2, 3)")
    assert "not a square mesh" in words("torus(3, 3)")
    assert "not a square mesh" in words("mesh(4)")
