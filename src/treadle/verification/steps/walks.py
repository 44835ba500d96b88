"""Ends of the links and ways that steps use, and the loads of links.

Shares no code with the generators.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array, mask_of, ranges_of, sums_of
from treadle.schedules.steps.steps import Steps
from treadle.topologies.topology import Topology
from treadle.verification.loads import slowest
from treadle.verification.violations import Findings, ViolationKind


def usable_ends(
    topology: Topology, steps: Steps, describe: Callable[[int], str], found: Findings
) -> tuple[Int64Array, Int64Array] | None:
    """Return the nodes at the ends of each link, or each way; None if some send cannot use its own.

    Ways must be walks over links of the fabric, and every send must use a link, or a way, between two
    different compute nodes. `describe` formats a send.
    """
    tails, heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
    if steps.has_paths:
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
        is_broken = (tails != np.roll(heads, 1)) & ~mask_of(len(links), offset[:-1])
        broken = np.flatnonzero(is_broken | (tails == heads))
        found.add_all(
            ViolationKind.LINK,
            broken,
            lambda i: (
                f"{steps.direction} way {np.searchsorted(offset, i, side='right') - 1}: link {links[i]} "
                f"({topology.link_name(int(links[i]))}) does not continue the link before it, or is a "
                "self-loop"
            ),
        )
        if broken.size:
            return None
        tails, heads = tails[offset[:-1]], heads[offset[1:] - 1]
    # A last, unusable entry stands for every link number that does not exist.
    is_loop = np.append(tails == heads, False)
    usable = np.append(topology.is_compute[tails] & topology.is_compute[heads], False) & ~is_loop
    wrong = np.flatnonzero(~usable[np.minimum(steps.link, len(tails))])

    def fault(send: int) -> str:
        number = int(steps.link[send])
        if number >= len(tails):
            reason = f"the fabric has only links 0 to {topology.n_links - 1}"
        else:
            reason = "a self-loop carries nothing" if is_loop[number] else "a switch cannot hold chunks"
        return f"{describe(send)}: {reason}"

    found.add_all(ViolationKind.LINK, wrong, fault)
    return None if wrong.size else (tails, heads)


def format_link(topology: Topology, steps: Steps, number: int) -> str:
    """Return the link or way of a send, with its ends if the link exists."""
    link = int(steps.link[number])
    if steps.has_paths:
        first, last = steps.way_links[steps.way_offset[link]], steps.way_links[steps.way_offset[link + 1] - 1]
        tail, head = topology.node_names[topology.tails[first]], topology.node_names[topology.heads[last]]
        return f"way {link} ({tail}->{head})"
    return f"link {link}" + (f" ({topology.link_name(link)})" if link < topology.n_links else "")


def seconds_and_loads(
    topology: Topology, steps: Steps, amount: Int64Array, more: Callable[[slice], Int64Array] | None = None
) -> tuple[Fraction, Int64Array]:
    """Return the seconds of all steps one after another, and the load of each link in all of them.

    Parameters
    ----------
    topology : Topology
    steps : Steps
    amount : array of int64 or Python ints, shape (sends,)
        Bytes of each send.
    more : callable, optional
        Additional load of each link by the sends of a step.
    """
    total, loads = Fraction(0), np.zeros(topology.n_links, dtype=amount.dtype)
    for step in range(steps.n_steps):
        span = steps.span(step)
        link, amounts = steps.link[span].astype(np.int64), amount[span]
        if steps.has_paths:
            begin = steps.way_offset[link]
            send, position = ranges_of(begin, steps.way_offset[link + 1] - begin)
            link, amounts = steps.way_links[position].astype(np.int64), amounts[send]
        # At most 2**31 sends of 2**24: no overflow.
        load = sums_of(topology.n_links, link, amounts, dtype=amount.dtype)
        if more is not None:
            load += more(span)
        total, loads = total + slowest(topology, load), loads + load
    return total, loads
