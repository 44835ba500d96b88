"""Checks that a schedule fits its fabric and collective, which all lowerings need."""

from __future__ import annotations

from treadle.arrays import Int32Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
from treadle.topologies.topology import Topology


def check_fit(
    topology: Topology, collective: Collective, kind: CollectiveKind, n_ranks: int, channels: int
) -> None:
    """Raise ScheduleError unless a schedule of this kind and number of ranks fits, or without a channel."""
    check_membership(topology, collective)
    if kind is not collective.kind:
        raise ScheduleError(f"the schedule is for {kind}, the collective is {collective.kind}")
    if n_ranks != collective.n_ranks:
        raise ScheduleError(f"the schedule has {n_ranks} ranks, the collective {collective.n_ranks}")
    if channels < 1:
        raise ScheduleError(f"channels: expected at least 1, found {channels}")


def check_links(what: str, topology: Topology, links: Int32Array) -> None:
    """Raise ScheduleError unless all links are links of the fabric; `what` begins the message."""
    for link in links[(links < 0) | (links >= topology.n_links)][:1]:
        raise ScheduleError(f"{what}: link {link}, expected links from 0 to {topology.n_links - 1}")
