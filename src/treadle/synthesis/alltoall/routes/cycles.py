"""Removal of cycles from link flows, since circulating flow reaches no rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array
from treadle.topologies.topology import Topology

DUST = 1e-12
"""Flows below this part of the largest one are rounding."""


def cancel_cycles(topology: Topology, flows: Float64Array) -> Float64Array:
    """The flows without cycles: the same net flow at every node, no link with more.

    Parameters
    ----------
    topology : Topology
    flows : array of float64, shape (sources, m)
        Not negative; rounding dust and self-loops are dropped.

    Notes
    -----
    Links that lie between no two cycles are found for all sources together; only the rest is searched.
    """
    flows = np.where(flows > DUST * flows.max(initial=0.0), flows, 0.0)
    flows[:, topology.tails == topology.heads] = 0.0
    suspect = _trimmed(topology.tails, topology.heads, flows > 0, topology.n_nodes)
    for source in np.flatnonzero(suspect.any(axis=1)).tolist():
        _cancel(topology, flows[source], np.flatnonzero(suspect[source]))
    return flows


def _trimmed(
    tails: NDArray[np.integer], heads: NDArray[np.integer], used: NDArray[np.bool_], n_nodes: int
) -> NDArray[np.bool_]:
    """Links left when those that begin where none ends, or end where none begins, go, and again."""
    used = used.copy()
    rows = np.arange(len(used))
    while rows.size:
        before = used[rows].sum(axis=1)
        for one, other in ((tails, heads), (heads, tails)):
            met = np.zeros((len(rows), n_nodes), dtype=np.bool_)
            place = np.nonzero(used[rows])
            met[place[0], other[place[1]]] = True
            used[rows] &= met[:, one]
        rows = rows[used[rows].sum(axis=1) < before]
    return used


def _cancel(topology: Topology, flow: Float64Array, links: NDArray[np.int64]) -> None:
    """Cancel the cycles among some links of one flow, in place: walk on until a node comes again."""
    out: dict[int, list[int]] = {}
    tails, heads = topology.tails, topology.heads
    for link in links.tolist():
        out.setdefault(int(tails[link]), []).append(link)
    for start in list(out):
        path: list[int] = []
        place = {start: 0}
        at = start
        while True:
            ways = out.get(at, [])
            if not ways:  # no cycle passes here; the link that led here is done with
                if not path:
                    break
                del place[at]
                at = int(tails[path.pop()])
                out[at].pop()
                continue
            link = ways[-1]
            head = int(heads[link])
            path.append(link)
            if head not in place:
                place[head] = len(path)
                at = head
                continue
            cycle = path[place[head] :]
            least = min(float(flow[link]) for link in cycle)
            for link in cycle:
                flow[link] = max(0.0, flow[link] - least)
                if flow[link] <= least * DUST:
                    flow[link] = 0.0
                    out[int(tails[link])].remove(link)
            for link in cycle[:-1]:
                del place[int(heads[link])]
            del path[place[head] :]
            at = head
