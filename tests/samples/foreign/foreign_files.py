"""Small schedules in the formats of others, written out by hand."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]


def taccl_ring_allgather(n: int) -> Json:
    """A unidirectional ring: in step t rank r passes on what comes from t ranks before it."""
    steps = [[[(r - t) % n, r, (r + 1) % n, t, 0] for r in range(n)] for t in range(n - 1)]
    chunks = [{"pre": [r], "post": list(range(n)), "addr": r} for r in range(n)]
    return taccl("Allgather", n, chunks, steps)


def taccl_ring_reduce_scatter(n: int) -> Json:
    """The ring backwards in its data: sums of shard s end at rank s."""
    steps = [[[(r - t - 1) % n, r, (r + 1) % n, t, 0, "rrc"] for r in range(n)] for t in range(n - 1)]
    chunks = [{"pre": [r], "post": [s], "addr": s} for s in range(n) for r in range(n)]
    return taccl("ReduceScatter", n, chunks, steps)


def taccl_ring_allreduce(n: int) -> Json:
    """Both after each other; SCCL's sends, which do not say what they do."""
    one = [[[(r - t - 1) % n, r, (r + 1) % n] for r in range(n)] for t in range(n - 1)]
    two = [[[(r - t) % n, r, (r + 1) % n] for r in range(n)] for t in range(n - 1)]
    chunks = [{"pre": [r], "post": list(range(n)), "addr": s} for s in range(n) for r in range(n)]
    return taccl("Allreduce", n, chunks, [*one, *two])


def taccl_relayed_alltoall(n: int) -> Json:
    """On a unidirectional ring: what goes d ranks on is passed on d times."""
    steps = [
        [[s * n + (s + d) % n, (s + t) % n, (s + t + 1) % n] for s in range(n) for d in range(t + 1, n)]
        for t in range(n - 1)
    ]
    chunks = [{"pre": [s], "post": [d], "addr": s * n + d} for s in range(n) for d in range(n)]
    return taccl("Alltoall", n, chunks, steps)


def taccl(name: str, n: int, chunks: list[Json], steps: list[list[list[Any]]]) -> Json:
    return {
        "sccl_type": "algorithm",
        "name": f"{name}-sample",
        "instance": {"sccl_type": "instance", "steps": len(steps)},
        "input_map": {},
        "output_map": {},
        "steps": [{"sccl_type": "step", "rounds": 1, "sends": sends} for sends in steps],
        "collective": {
            "sccl_type": "collective",
            "name": name,
            "nodes": n,
            "chunks": [{"sccl_type": "chunk", **chunk} for chunk in chunks],
            "ranks": [],
            "triggers": {},
        },
        "topology": {"sccl_type": "topology", "name": "ring"},
    }


def teccl_star_allgather(n: int) -> Json:
    """Everybody sends to everybody over switch 0; GPUs are numbered from 1, as TE-CCL does."""
    flows, paths = [], {}
    for source in range(1, n + 1):
        for turn in range(1, n):
            target = (source - 1 + turn) % n + 1
            hop = f"{source}->{target} in epoch {turn} via switches 0"
            flows.append(f"Chunk 0 from {source} traveled over {hop}")
            paths[f"Demand at {target} for chunk 0 from {source} met by epoch {turn}"] = [hop]
    return teccl(flows, paths)


def teccl_ring_alltoall() -> Json:
    """Four GPUs in a ring of links both ways; what goes across takes both ways, half and half."""
    flows: list[str] = []
    paths: dict[str, list[list[list[Any]]]] = {}
    n = 4
    for source in range(n):
        for distance in (1, 2, 3):
            target = (source + distance) % n
            routes = []
            for step in (1, -1):
                hops = distance if step == 1 else n - distance
                if hops > 2:
                    continue
                volume = 0.5 if distance == 2 else 1.0
                route = []
                for place in range(hops):
                    tail, head = (source + step * place) % n, (source + step * (place + 1)) % n
                    route.append([place, f"{tail}->{head} with volume {volume} in epoch {place}"])
                    flows.append(f"Chunk {target} from {source} traveled over {route[-1][1]}")
                routes.append(route)
            paths[f"Demand at {target} for chunk {target} from {source} met by epoch 1"] = routes
    return teccl(flows, paths)


def teccl(flows: list[str], paths: Json) -> Json:
    return {
        "1-Epoch_Duration": 1e-6,
        "2-Expected_Epoch_Duration": 1e-6,
        "3-Epochs_Required": 4,
        "4-Collective_Finish_Time": 4e-6,
        "5-Algo_Bandwidth": 1.0,
        "7-Flows": flows,
        "8-Chunk paths": paths,
    }


def as_bytes(value: Json) -> bytes:
    return json.dumps(value).encode()
