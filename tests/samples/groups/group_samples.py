"""Groups of ranks on small fabrics, and schedules for them that are correct and no more: random trees."""

from __future__ import annotations

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.topologies import parse
from treadle.topologies.topology import Topology


def grouped(
    kind: CollectiveKind, fabric: str, shape: tuple[int, ...], axis: int, ranks_forward: bool
) -> tuple[Topology, Collective]:
    """A fabric of `GROUPED` and a collective on it."""
    topology = parse(fabric)
    names = tuple("abcdef"[: len(shape)])
    return topology, Collective(
        kind,
        tuple(topology.compute_nodes.tolist()),
        root=1 if kind.is_rooted else None,
        groups=Mesh(shape, names).groups(names[axis]),
        ranks_forward=ranks_forward,
    )
