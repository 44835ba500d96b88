"""Started by mpirun: runs programs of step schedules and routes and prints what rank 0 saw as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import exchange_samples
import greedy_steps as samples
import route_samples
from treadle.lowering.lower import lower
from treadle.lowering.program import Program
from treadle.runtime.mpi import load_mpi, measure_mpi
from treadle.schedules.collective import SPANNING_KINDS
from treadle.synthesis.alltoall.timed_routes import timed_routes

SIZES = [0, 4, 36, 4096, 50_000]


def cases(n: int) -> Iterator[tuple[str, Program]]:
    for topology in (samples.ring(n, both=True), samples.ring(n, links=2)):
        for kind in SPANNING_KINDS:
            collective, schedule = samples.greedy_schedule(topology, kind, seed=5, root=1)
            for in_place in (False, True):
                label = f"{topology.name} {kind} in_place={in_place}"
                yield label, lower(topology, collective, schedule, in_place=in_place, channels=1 + in_place)
    yield "whole buffers", lower(*samples.whole_buffer_allreduce(n))
    ring = samples.ring(n, both=True)
    for demands in (None, exchange_samples.random_demands(n, seed=n)):
        collective = exchange_samples.alltoall(ring, demands)
        schedule = exchange_samples.over_shortest_paths(ring, collective, rounds=3)
        yield f"alltoall demands={demands}", lower(ring, collective, schedule, channels=2)
        routes = route_samples.over_shortest_paths(ring, collective)
        yield f"routes demands={demands}", lower(ring, collective, routes, channels=2)
        for flows in (1, 2):
            rounds = timed_routes(ring, routes, max_flows=flows)
            yield f"routes demands={demands} flows={flows}", lower(ring, collective, rounds)


def main() -> None:
    world = load_mpi().COMM_WORLD
    wrong = {}
    for label, program in cases(world.Get_size()):
        rows = measure_mpi(program, SIZES, iterations=1, warmup=0, slice_bytes=256)
        wrong[label] = [row.wrong for row in rows]
    if world.Get_rank() == 0:
        json.dump(wrong, sys.stdout)


if __name__ == "__main__":
    main()
