"""Started by mpirun: runs programs of step schedules and routes and prints what rank 0 saw as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from samples import exchange_samples, route_samples
from samples import greedy_steps as samples
from treadle.program.any_schedule import lower
from treadle.program.message_levels import dataflow
from treadle.program.passes import merge_levels
from treadle.program.program import OperationKind, Program
from treadle.runtime.data import ElementType
from treadle.runtime.mpi import RankExecution, load_mpi, measure_mpi
from treadle.runtime.rank_script import PreparedRank
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes.route_rounds import timed_routes
from treadle.synthesis.sizes.factor_allreduce import factor_allreduce
from treadle.synthesis.sizes.factor_exchange import factor_exchange

SIZES = {256: [0, 4, 36, 4096], 2**20: [50_000]}
"""By what slices have at most, in bytes."""


def cases(n: int) -> Iterator[tuple[str, Program]]:
    for in_place, topology in ((False, samples.ring(n, both=True)), (True, samples.ring(n, links=2))):
        for kind in SPANNING_KINDS:
            collective, schedule = samples.greedy_schedule(topology, kind, seed=5, root=1)
            label = f"{topology.name} {kind}"
            yield label, lower(topology, collective, schedule, in_place=in_place, channels=1 + in_place)
    yield "whole buffers", lower(*samples.whole_buffer_allreduce(n))
    ring = samples.ring(n, both=True)
    collective = on_all_ranks(ring, CollectiveKind.ALLREDUCE)
    halves = (n // 2, 2) if n % 2 == 0 else (n,)
    for exchanged in ((), (1,), (len(halves),), range(1, len(halves) + 1)):
        steps = factor_allreduce(ring, collective, factors=halves, exchanged=tuple(exchanged))
        yield f"factors {halves} exchanged {tuple(exchanged)}", lower(ring, collective, steps)
    exchange = on_all_ranks(ring, CollectiveKind.ALLTOALL)
    for factors in ((n,), (2, 2, 2)[: (n - 1).bit_length()]):
        yield f"exchange {factors}", lower(ring, exchange, factor_exchange(ring, exchange, factors=factors))
    for demands in (None, exchange_samples.random_demands(n, seed=n)):
        collective = exchange_samples.alltoall(ring, demands)
        schedule = exchange_samples.over_shortest_paths(ring, collective, rounds=3)
        yield f"alltoall demands={demands}", lower(ring, collective, schedule, channels=2)
        routes = route_samples.over_shortest_paths(ring, collective)
        yield f"routes demands={demands}", lower(ring, collective, routes, channels=2)
        for flows in (1, 2):
            rounds = timed_routes(ring, routes, max_flows=flows)
            yield f"routes demands={demands} flows={flows}", lower(ring, collective, rounds)


class Counted:
    """A communicator that counts what it sends."""

    def __init__(self, world: Any) -> None:
        self._world, self.sent = world, 0

    def __getattr__(self, name: str) -> Any:
        self.sent += name == "Isend"
        return getattr(self._world, name)


def messages(program: Program, count: int, slice_bytes: int) -> int:
    """What all ranks send in one run on so many elements."""
    mpi = load_mpi()
    communicator = Counted(mpi.COMM_WORLD)
    rank = PreparedRank(program, mpi.COMM_WORLD.Get_rank())
    execution = RankExecution(
        rank, mpi, communicator, count, element=ElementType.FLOAT32, slice_bytes=slice_bytes
    )
    execution.run()
    return int(mpi.COMM_WORLD.allreduce(communicator.sent))


def counts(n: int) -> dict[str, list[int]]:
    """Of two programs: sends before and after they are joined, pairs of ranks and levels, and messages of
    short chunks, of longer ones, and of those that would be too long if they were joined.
    """
    found: dict[str, list[int]] = {
        key: [] for key in ("sends", "joined", "levels", "small", "medium", "large")
    }
    ring = samples.ring(n, both=True)
    collective = exchange_samples.alltoall(ring)
    for channels in (1, 3):
        schedule = exchange_samples.over_shortest_paths(ring, collective, rounds=3)
        program = lower(ring, collective, schedule, channels=channels)
        is_send = program.operation_kind == OperationKind.SEND
        ends = (program.operation_rank, program.peer, dataflow(program).level)
        found["sends"].append(int(is_send.sum()))
        found["levels"].append(len(set(zip(*(end[is_send].tolist() for end in ends), strict=True))))
        joined = merge_levels(program).operation_kind == OperationKind.SEND
        found["joined"].append(int(joined.sum()))
        for key, count, slice_bytes in (
            ("small", 1000, 2**20),
            ("medium", 2**17, 2**20),
            ("large", 2**17, 2**16),
        ):
            found[key].append(messages(program, count, slice_bytes))
    return found


def main() -> None:
    world = load_mpi().COMM_WORLD
    wrong = {}
    for label, program in cases(world.Get_size()):
        rows = [
            row
            for slice_bytes, sizes in SIZES.items()
            for row in measure_mpi(program, sizes, iterations=1, warmup=0, slice_bytes=slice_bytes)
        ]
        wrong[label] = [row.wrong for row in rows]
    report = {"wrong": wrong, **counts(world.Get_size())}
    if world.Get_rank() == 0:
        json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
