"""What the links of steps, or their ways, lead from and to, and what crosses each link.

Shares no code with the generators.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array, offsets_of
from treadle.schedules.steps.steps import Steps
from treadle.topologies.topology import Topology
from treadle.verification.loads import slowest
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
    if not steps.has_paths:
        return tails, heads
    links, offset = steps.way_links.astype(np.int64), steps.way_offset
    unknown = np.flatnonzero(links >= topology.n_links)
    found.add_all(
        ViolationKind.LINK,
        unknown,
        lambda i: (
            f"{steps.direction} ways take link {links[i]}: the fabric has only links 0 to "
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
        broken,
        lambda i: (
            f"{steps.direction} way {np.searchsorted(offset, i, side='right') - 1}: link "
            f"{links[i]} ({topology.link_name(int(links[i]))}) does not go on from the one "
            f"before, or leads nowhere"
        ),
    )
    return None if broken.size else (tails[offset[:-1]], heads[offset[1:] - 1])


def usable_ends(
    topology: Topology, steps: Steps, describe: Callable[[int], str], found: Findings
) -> tuple[Int64Array, Int64Array] | None:
    """Nodes at the ends of each link or way, as `ends_of_sends`; None unless sends can use theirs.

    Every send must use a link, or a way, between two different compute nodes; `describe` is its words.
    """
    ends = ends_of_sends(topology, steps, found)
    if ends is None:
        return None
    tails, heads = ends
    # a last, unusable entry stands for every link number that does not exist
    is_loop = np.append(tails == heads, False)
    holds = topology.is_compute[tails] & topology.is_compute[heads]
    usable = np.append(holds & ~is_loop[:-1], False)
    wrong = np.flatnonzero(~usable[np.minimum(steps.link, len(tails))])

    def fault(send: int) -> str:
        number = int(steps.link[send])
        if number >= len(tails):
            said = f"the fabric has only links 0 to {topology.n_links - 1}"
        else:
            said = "a self-loop carries nothing" if is_loop[number] else "a switch cannot hold chunks"
        return f"{describe(send)}: {said}"

    found.add_all(ViolationKind.LINK, wrong, fault)
    return None if wrong.size else ends


def format_link(topology: Topology, steps: Steps, number: int) -> str:
    """The link or way of a send, with its ends where it has some."""
    link = int(steps.link[number])
    if steps.has_paths:
        first, last = steps.way_links[steps.way_offset[link]], steps.way_links[steps.way_offset[link + 1] - 1]
        tail, head = topology.node_names[topology.tails[first]], topology.node_names[topology.heads[last]]
        return f"way {link} ({tail}->{head})"
    return f"link {link}" + (f" ({topology.link_name(link)})" if link < topology.n_links else "")


def crossings(steps: Steps, sends: slice) -> tuple[Int64Array, Int64Array]:
    """Each link that each of some sends crosses.

    Returns
    -------
    pair of arrays of int64
        The link, and the place of its send among `sends`.
    """
    link = steps.link[sends].astype(np.int64)
    if not steps.has_paths:
        return link, np.arange(len(link))
    lengths = np.diff(steps.way_offset)[link]
    send = np.repeat(np.arange(len(link)), lengths)
    within = np.arange(len(send)) - offsets_of(lengths)[send]
    return steps.way_links[steps.way_offset[link][send] + within].astype(np.int64), send


def seconds_and_loads(
    topology: Topology, steps: Steps, amount: Int64Array, more: Callable[[slice], Int64Array] | None = None
) -> tuple[Fraction, Int64Array]:
    """Seconds of all steps, one after the other, and what each link carries in all of them.

    Parameters
    ----------
    topology : Topology
    steps : Steps
    amount : array of int64 or Python ints, shape (sends,)
        Bytes of each send.
    more : callable, optional
        What each link carries beyond that, by the sends of a step.
    """
    total, loads = Fraction(0), np.zeros(topology.n_links, dtype=amount.dtype)
    for step in range(steps.n_steps):
        span = steps.span(step)
        load = np.zeros(topology.n_links, dtype=amount.dtype)  # at most 2**31 sends of 2**24: no overflow
        link, send = crossings(steps, span)
        np.add.at(load, link, amount[span][send])
        load = load if more is None else load + more(span)
        total, loads = total + slowest(topology, load), loads + load
    return total, loads
