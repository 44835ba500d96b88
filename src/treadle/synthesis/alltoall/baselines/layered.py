"""Layers for the baselines' routes, so that fabrics whose adapters forward can run them."""

from __future__ import annotations

from dataclasses import replace

from treadle.context import context, under
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.synthesis.alltoall.routes.path_sets import PathSet
from treadle.synthesis.alltoall.routes.virtual_channels import lash_layers
from treadle.topologies.topology import Topology


def with_layers(topology: Topology, schedule: RouteSchedule) -> RouteSchedule:
    """Return the same routes in layers without cyclic waits, by LASH, long paths first."""
    paths = PathSet(schedule.source, schedule.target, schedule.path_offset, schedule.path_links)
    with under(context().unlimited):  # without layers the paths would be of no use
        layer = lash_layers(paths, topology.n_links)
    return replace(schedule, layer=layer)
