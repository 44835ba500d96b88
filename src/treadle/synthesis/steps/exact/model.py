"""The CP-SAT model. Only the solver's process imports this module, and it loads ortools before all else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ortools.sat.python import cp_model

Literal = Any
"""A CP-SAT Boolean variable, or the constant 0 or 1."""


def _built(
    problem: Mapping[str, Any],
) -> tuple[cp_model.CpModel, dict[tuple[int, int, int, int], Literal], list[Any]]:
    """The model with all variables and constraints, its sends, and the rounds of each step."""
    cp, sends = cp_model.CpModel(), dict[tuple[int, int, int, int], Literal]()
    if problem["rounds"] is not None:
        rounds = list(problem["rounds"])
    else:
        # each of the other steps takes at least one round
        most = problem["total_rounds"] - problem["steps"] + 1
        rounds = [cp.new_int_var(1, most, f"r{t}") for t in range(problem["steps"])]
        cp.add(sum(rounds) == problem["total_rounds"])
    into: list[list[int]] = [[] for _ in range(problem["n_nodes"])]
    for link, head in enumerate(problem["heads"]):
        into[head].append(link)
    for shard in range(len(problem["homes"])):
        keys = [_add_chunk(cp, problem, shard, chunk, into, sends) for chunk in range(problem["chunks"])]
        for one, other in pairwise(keys):
            # Chunks of a shard are interchangeable, so some solution has them in this order.
            cp.add(one <= other)
    carried: dict[tuple[int, int], list[Literal]] = {}
    for (_, _, link, step), send in sends.items():
        # a send stands for its images under the whole group too, each on the image of its link
        for copy in problem["copies"]:
            carried.setdefault((copy[link], step), []).append(send)
    for (link, step), crossing in sorted(carried.items(), key=lambda item: item[0]):
        cp.add(sum(crossing) <= problem["capacity"][link] * rounds[step])
    return cp, sends, rounds


def _add_chunk(
    cp: cp_model.CpModel,
    problem: Mapping[str, Any],
    shard: int,
    chunk: int,
    into: Sequence[Sequence[int]],
    sends: dict[tuple[int, int, int, int], Literal],
) -> Any:
    """Sends of one chunk: each node gets it once, after its in-neighbour did. Returns the sort key."""
    steps, home = problem["steps"], problem["homes"][shard]
    near = problem["distances"][home]
    held: list[list[Literal]] = [[int(node == home)] * (steps + 1) for node in range(problem["n_nodes"])]
    mine: dict[tuple[int, int], Literal] = {}
    for node, links in enumerate(into):
        if node == home:
            continue
        for step in range(steps):
            arrivals = []
            for link in links:
                if near[problem["tails"][link]] <= step:
                    send = cp.new_bool_var(f"x{shard}.{chunk}.{link}.{step}")
                    mine[link, step] = send
                    arrivals.append(send)
            if not arrivals:
                held[node][step + 1] = held[node][step]
                continue
            after = 1 if step == steps - 1 else cp.new_bool_var(f"h{shard}.{chunk}.{node}.{step}")
            held[node][step + 1] = after
            # A sum of Booleans that equals a Boolean: at most one arrival ever, and held from then on.
            cp.add(sum(arrivals) + held[node][step] == after)
    for (link, step), send in mine.items():
        tail = problem["tails"][link]
        if tail != home:
            cp.add_implication(send, held[tail][step])
        sends[shard, chunk, link, step] = send
    farthest = max(range(problem["n_nodes"]), key=lambda node: (near[node], -node))
    order = sorted((step, link) for link, step in mine if problem["heads"][link] == farthest)
    return sum(place * mine[link, step] for place, (step, link) in enumerate(order))


def solve(problem: Mapping[str, Any], *, time_limit_s: float) -> dict[str, Any]:
    """Build and solve; the answer as plain numbers.

    Parameters
    ----------
    problem : mapping
        The request: n_nodes, tails, heads, capacity, distances (from every node), `homes`, chunks, steps,
        rounds (list or null), total_rounds, seed, workers, and copies: link permutations under which the
        sends of every shard appear once each, the identity first.
    time_limit_s : float
        For building and search, seconds of wall time.

    Returns
    -------
    dict
        status (found, infeasible, unknown), sends (shard, chunk, link, step), rounds, branches, conflicts.
    """
    started = time.perf_counter()
    cp, sends, rounds = _built(problem)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.01, time_limit_s - (time.perf_counter() - started))
    solver.parameters.random_seed = problem["seed"]
    solver.parameters.num_workers = problem["workers"]
    if problem["workers"] == 1:
        # Measured: without the LP relaxation DBJMod(4,2) takes 0.4 s, with it 19 s to over 60 s.
        solver.parameters.linearization_level = 0
    status = solver.solve(cp)
    answer: dict[str, Any] = {"branches": solver.num_branches, "conflicts": solver.num_conflicts}
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        answer["status"] = "found"
        answer["sends"] = [list(key) for key, send in sends.items() if solver.boolean_value(send)]
        answer["rounds"] = [int(solver.value(number)) for number in rounds]
    elif status == cp_model.INFEASIBLE:
        answer["status"] = "infeasible"
    elif status == cp_model.UNKNOWN:
        answer["status"] = "unknown"
    else:
        raise RuntimeError(f"CP-SAT rejected the model: {cp.validate()}")
    return answer
