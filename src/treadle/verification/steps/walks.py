"""What the links of steps, or their ways, lead from and to, and what crosses each link.

Shares no code with the generators.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, offsets_of
from treadle.schedules.steps.steps import Steps
from treadle.topologies.topology import Topology
from treadle.verification.violations import Findings, ViolationKind


def ends_of_sends(topology: Topology, steps: Steps, found: Findings) -> tuple[Int64Array, Int64Array] | None:
    """Nodes at which each link, or each way, begins and ends.

    Parameters
    ----------
    topology : Topology
    steps : Steps
    found : Findings
        Ways that are no walks over links of the fabric are added to it.

    Returns
    -------
    pair of arrays of int64, shape (links,) or (ways,)
        None if some way is none.
    """
    tails, heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
    if not steps.has_ways:
        return tails, heads
    links, offset = steps.way_links.astype(np.int64), steps.way_offset
    unknown = np.flatnonzero(links >= topology.n_links)
    found.add_all(
        ViolationKind.LINK,
        len(unknown),
        lambda i: (
            f"{steps.direction} ways take link {links[unknown[i]]}: the fabric has only links 0 to "
            f"{topology.n_links - 1}"
        ),
    )
    if unknown.size:
        return None
    tails, heads = tails[links], heads[links]
    follows = np.append(True, tails[1:] == heads[:-1])[: len(links)]
    follows[offset[:-1]] = True
    broken = np.flatnonzero(~follows | (tails == heads))
    found.add_all(
        ViolationKind.LINK,
        len(broken),
        lambda i: (
            f"{steps.direction} way {np.searchsorted(offset, broken[i], side='right') - 1}: link "
            f"{links[broken[i]]} ({topology.link_name(int(links[broken[i]]))}) does not go on from the one "
            f"before, or leads nowhere"
        ),
    )
    return None if broken.size else (tails[offset[:-1]], heads[offset[1:] - 1])


def crossings(steps: Steps, sends: slice) -> tuple[Int64Array, Int64Array]:
    """Each link that each of some sends crosses.

    Returns
    -------
    pair of arrays of int64
        The link, and the place of its send among `sends`.
    """
    link = steps.link[sends].astype(np.int64)
    if not steps.has_ways:
        return link, np.arange(len(link))
    lengths = np.diff(steps.way_offset)[link]
    send = np.repeat(np.arange(len(link)), lengths)
    within = np.arange(len(send)) - offsets_of(lengths)[send]
    return steps.way_links[steps.way_offset[link][send] + within].astype(np.int64), send
