"""What each message and each link of a program costs under the options of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.program.operation_lists import OperationKind
from treadle.simulation.costs.cost_model import CostModel, Protocol
from treadle.simulation.costs.link_classes import CLASSES
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import TaskGraph


@dataclass(frozen=True, eq=False)
class Prices:
    """Costs by resource and by operation.

    Parameters
    ----------
    resource_bytes_per_s, resource_latency_ns : arrays of int64, shape (resources,)
        Bandwidth that is left to data, rounded down to whole bytes/s, and latency.
    alpha_ns, occupancy_ns : arrays of int64, shape (operations,)
        Of each send: latency of the message, and for how long it holds its first link besides its bytes.
    """

    resource_bytes_per_s: Int64Array
    resource_latency_ns: Int64Array
    alpha_ns: Int64Array
    occupancy_ns: Int64Array


def prices(graph: TaskGraph, options: SimulationOptions) -> Prices:
    """Costs of a program's messages.

    Parameters
    ----------
    graph : TaskGraph
    options : SimulationOptions
        With `costs`: a message pays the alpha and the occupancy of the dearest of its links' classes (of
        each the most), and each link its class's latency and efficiency; what leaves a rank is no faster
        than all channels. A host's port has the efficiency of the links that it serves: the lowest of their
        classes. Without: alpha, and no more.
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
    of_resource = graph.resource_class
    hops = np.array([costs.of(one).hop_ns for one in CLASSES], dtype=np.int64)
    latency = graph.resource_latency_ns.copy()
    is_link = np.arange(graph.n_resources) < graph.topology.n_links
    latency[is_link] += hops[of_resource[is_link]]
    return Prices(
        _rates(graph, costs),
        latency,
        _most(graph, [costs.of(one).alpha_ns for one in CLASSES]),
        _most(graph, [costs.of(one).occupancy_ns for one in CLASSES]),
    )


def _most(graph: TaskGraph, of_class: list[int]) -> Int64Array:
    """Of each send the greatest figure of its links' classes; 0 for other operations."""
    figures = np.array(of_class, dtype=np.int64)
    found = np.zeros(graph.program.n_operations, dtype=np.int64)
    sends = graph.program.operation_kind[graph.operation] == OperationKind.SEND
    onto = np.flatnonzero((graph.resource >= 0) & (graph.resource < graph.topology.n_links) & sends)
    np.maximum.at(found, graph.operation[onto], figures[graph.resource_class[graph.resource[onto]]])
    return found


def _rates(graph: TaskGraph, costs: Protocol) -> Int64Array:
    topology, m = graph.topology, graph.topology.n_links
    leaves_rank = np.zeros(graph.n_resources, dtype=np.bool_)
    leaves_rank[:m] = topology.is_compute[topology.tails]
    kinds = np.stack([graph.resource_bytes_per_s, graph.resource_class, leaves_rank])
    distinct, place = np.unique(kinds, axis=1, return_inverse=True)
    rates = []
    for bandwidth, number, leaves in distinct.T.tolist():
        share = costs.of(CLASSES[number]).efficiency
        rate = max(1, bandwidth * share.numerator // share.denominator)
        rates.append(min(rate, costs.ceiling_bytes_per_s or rate) if leaves else rate)
    found: Int64Array = np.array(rates, dtype=np.int64)[place.reshape(-1)]
    return found


def protocol_options(options: SimulationOptions, model: CostModel | None) -> tuple[SimulationOptions, ...]:
    """The options under each protocol of a cost model, of which a library takes the fastest.

    Parameters
    ----------
    options : SimulationOptions
    model : CostModel, optional
        None: the options alone.

    Raises
    ------
    ScheduleError
        If the options have costs of their own beside a model.
    """
    if model is None:
        return (options,)
    if options.alpha_ns or options.costs is not None:
        raise ScheduleError("simulation: a cost model has latencies; alpha is for times without one")
    reduction = options.reduction_bytes_per_s or model.reduction_bytes_per_s
    return tuple(
        replace(options, costs=protocol, reduction_bytes_per_s=reduction) for protocol in model.protocols
    )
