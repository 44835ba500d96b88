"""Sends of a program that stand for in-network multicast or aggregation of its schedule."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.program.operation_lists import OperationKind, OperationLists
from treadle.topologies.topology import Topology


def in_network_sends(topology: Topology, program: OperationLists) -> Int64Array:
    """Return the sends whose path begins or ends at a switch: copies or sums that the network should make.

    A program, and any file made from it, sends them from rank to rank: the results are correct, but a runtime
    that executes them like this moves more data than the throughput of the schedule counts.

    Parameters
    ----------
    topology : Topology
        The fabric that the program's paths are on.
    program : OperationLists

    Returns
    -------
    array of int64
        Operation numbers, rising.

    Examples
    --------
    >>> from treadle.program.program import Operation, OperationKind, program_from_operations
    >>> from treadle.schedules.collective import CollectiveKind
    >>> from treadle.topologies.topology import TopologyBuilder
    >>> builder = TopologyBuilder("star")
    >>> names = [builder.compute("a"), builder.compute("b"), builder.switch("sw", multicast=True)]
    >>> for name in names[:2]:
    ...     builder.duplex(name, "sw", 10**9)
    >>> topology = builder.build()
    >>> down = next(i for i in range(4) if topology.tails[i] == 2 and topology.heads[i] == 1)
    >>> send = Operation(OperationKind.SEND, 0, 1, peer=1, path=0)
    >>> receive = Operation(OperationKind.RECEIVE, 0, 1, peer=0)
    >>> program = program_from_operations(
    ...     CollectiveKind.BROADCAST,
    ...     [[send], [receive]],
    ...     n_chunks=1,
    ...     shard_offset=[0, 1, 1],
    ...     root=0,
    ...     paths=[[down]],
    ... )
    >>> in_network_sends(topology, program).tolist()
    [0]
    """
    sends = np.flatnonzero((program.operation_kind == OperationKind.SEND) & (program.path >= 0))
    paths = program.path[sends]
    first, last = program.path_offset[paths], program.path_offset[paths + 1] - 1
    tails = topology.tails[program.path_links[first]]
    heads = topology.heads[program.path_links[last]]
    own, peer = program.nodes[program.operation_rank[sends]], program.nodes[program.peer[sends]]
    found: Int64Array = sends[(tails != own) | (heads != peer)].astype(np.int64)
    return found
