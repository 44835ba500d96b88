"""Route files as schedules again: what was written is what is read."""

from __future__ import annotations

from treadle.errors import FormatError, ScheduleError
from treadle.formats.routes.interpreter import own_faults
from treadle.formats.routes.reader import RouteFile, ports_of, read_route_json
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology


def parse_route_json(
    text: str, topology: Topology, collective: Collective, *, source: str = ""
) -> RouteSchedule:
    """Read the routes of a JSON for a fabric.

    Parameters
    ----------
    text : str
    topology : Topology
    collective : Collective
        Ranks must have the names that the file gives.
    source : str, optional
        File name for messages.

    Raises
    ------
    FormatError
        If the text is malformed, or contradicts itself or the fabric. `verify_routes` checks the meaning.
    """
    file = read_route_json(text, source=source)
    try:
        return _schedule(file, topology, collective)
    except (FormatError, ScheduleError) as error:
        raise FormatError(str(error), source=source) from None


def _schedule(file: RouteFile, topology: Topology, collective: Collective) -> RouteSchedule:
    if file.ranks != tuple(topology.node_names[node] for node in collective.ranks):
        raise FormatError("route file: its ranks are not those of the collective on this fabric")
    for fault in own_faults(file):
        raise FormatError(f"route file: {fault}")
    ports = ports_of(topology)
    for number, route in enumerate(file.routes):
        if any(not 0 <= link < topology.n_links for link in route.links):
            raise FormatError(f"route file: route {number}: links must be 0 to {topology.n_links - 1}")
        if list(route.ports) != [ports[link] for link in route.links]:
            raise FormatError(
                f"route file: route {number}: ports and links disagree; the file is for another fabric"
            )
    assert file.n_chunks is not None
    rows = [(one.source, one.target, one.chunks, one.layer, one.links) for one in file.routes]
    schedule = routes_from_paths(collective.n_ranks, file.n_chunks, rows)
    if schedule.n_layers != file.n_layers:
        raise FormatError(f"route file: {schedule.n_layers} layers are used, not {file.n_layers}")
    return schedule
