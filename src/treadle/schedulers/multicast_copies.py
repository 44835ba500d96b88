"""Copies of its data that a rank sends, with and without GPU-initiated multicast."""

from __future__ import annotations

import numpy as np

from treadle.inputs.problem import Problem
from treadle.schedulers.expectations import NVLS
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule
from treadle.schedules.trees.forest_cost import algbw
from treadle.topologies.topology import Topology


def sent_copies(topology: Topology, schedule: ForestSchedule) -> tuple[int, int]:
    """Copies that a rank sends in a tree and ranks that receive them, where switches save most; or 0, 0."""
    best = 0, 0
    for forest in schedule.forests:
        if (
            not isinstance(forest, Forest)
            or forest.direction is not Direction.BROADCAST
            or not forest.n_paths
        ):
            continue
        n = forest.n_ranks
        parent = forest.tree_table()[2]
        entry_offset, entry_path, _ = forest.edge_paths()
        tree, child = np.nonzero(parent >= 0)
        sender = tree * n + parent[tree, child]
        entry = entry_path[entry_offset[tree * n + child]]
        begins = topology.is_compute[topology.tails[forest.path_ends()[0][entry]]]
        receivers = np.bincount(sender, minlength=n * forest.n_trees)
        sent = np.bincount(sender, weights=begins, minlength=len(receivers)).astype(np.int64)
        place = int((receivers - sent).argmax())
        found = int(sent[place]), int(receivers[place])
        if found[1] - found[0] > best[1] - best[0]:
            best = found
    return best


def copy_notes(problem: Problem, schedule: ForestSchedule, *, is_asked: bool) -> tuple[str, ...]:
    """A note on copies that switches save, or that they would if the plan let them."""
    topology, collective = problem.topology, problem.collective
    sent, received = sent_copies(topology, schedule)
    if received > sent:
        copies = "copy" if sent == 1 else "copies"
        return (f"switches multicast: a rank sends {sent} {copies} of its data instead of {received}",)
    scheduler = find_scheduler(NVLS)
    if not is_asked or scheduler.unsupported(topology, collective) is not None:
        return ()
    other = scheduler.load()(topology, collective)
    sent, received = sent_copies(topology, other)
    if received == sent:
        return ()
    return (
        f"with multicast a rank would send {sent} copy of its data instead of {received}, at "
        f"{float(algbw(topology, other)) / 1e9:.4g} GB/s algbw: --algorithm nvls does, --size takes it where "
        "it is faster",
    )
