"""Costs of each message and each link of a program under the options of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.program.operation_lists import OperationKind
from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.costs.link_classes import CLASSES, data_rates
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import TaskGraph


@dataclass(frozen=True, eq=False)
class Prices:
    """Costs by resource and by operation.

    Parameters
    ----------
    resource_bytes_per_s, resource_latency_ns : arrays of int64, shape (resources,)
        Rate of data, rounded down, and latency.
    alpha_ns, occupancy_ns : arrays of int64, shape (operations,)
        Latency of each send's message, and time for which it holds its first link in addition to its bytes.
    """

    resource_bytes_per_s: Int64Array
    resource_latency_ns: Int64Array
    alpha_ns: Int64Array
    occupancy_ns: Int64Array


def prices(graph: TaskGraph, options: SimulationOptions) -> Prices:
    """Return the costs of a program's messages.

    With `options.costs`, a message pays the largest alpha and the largest occupancy of its links' classes.
    Each link has its class's latency and efficiency; data leaves a rank no faster than all channels together.
    A host's port has the efficiency of the last class of its links. Without `costs`, a message pays alpha.
    """
    n = graph.program.n_operations
    costs = options.costs
    if costs is None:
        return Prices(
            graph.resource_bytes_per_s,
            graph.resource_latency_ns,
            np.full(n, options.alpha_ns, dtype=np.int64),
            np.zeros(n, dtype=np.int64),
        )
    topology, m = graph.topology, graph.topology.n_links
    hops = np.array([costs.of(one).hop_ns for one in CLASSES], dtype=np.int64)
    latency = graph.resource_latency_ns.copy()
    latency[:m] += hops[graph.resource_class[:m]]
    leaves_rank = np.zeros(graph.n_resources, dtype=np.bool_)
    leaves_rank[:m] = topology.is_compute[topology.tails]
    return Prices(
        data_rates(costs, graph.resource_bytes_per_s, graph.resource_class, leaves_rank),
        latency,
        _most(graph, [costs.of(one).alpha_ns for one in CLASSES]),
        _most(graph, [costs.of(one).occupancy_ns for one in CLASSES]),
    )


def _most(graph: TaskGraph, of_class: list[int]) -> Int64Array:
    """Return each send's largest cost by the classes of its links; 0 for other operations."""
    costs = np.array(of_class, dtype=np.int64)
    found = np.zeros(graph.program.n_operations, dtype=np.int64)
    sends = graph.program.operation_kind[graph.operation] == OperationKind.SEND
    onto = np.flatnonzero((graph.resource >= 0) & (graph.resource < graph.topology.n_links) & sends)
    np.maximum.at(found, graph.operation[onto], costs[graph.resource_class[graph.resource[onto]]])
    return found


def protocol_options(options: SimulationOptions, model: CostModel | None) -> tuple[SimulationOptions, ...]:
    """Return the options under each protocol of a cost model; without a model, the options alone.

    Raises ScheduleError if both a model and the options have costs.
    """
    if model is None:
        return (options,)
    if options.alpha_ns or options.costs is not None:
        raise ScheduleError("simulation: both a cost model and alpha were given; use one of them")
    reduction = options.reduction_bytes_per_s or model.reduction_bytes_per_s
    return tuple(
        replace(options, costs=protocol, reduction_bytes_per_s=reduction) for protocol in model.protocols
    )
