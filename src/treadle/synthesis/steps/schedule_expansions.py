"""Step schedules of expanded graphs from step schedules of small ones.

Section 3.5 and appendix A.4 of the dissertation. The graphs are those of `transforms.expansions`, and
the schedules number links as those functions do. `treadle.finder.predict` predicts the costs.

Definitions 1, 2 and 14 are about allgather. Given the steps of a reduce-scatter, the functions here follow
Corollary 1.2: they expand the reversed steps on the transpose and turn the result round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import lcm

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, offsets_of, positions_of
from treadle.errors import ScheduleError
from treadle.schedules.steps.step_transforms import reverse
from treadle.schedules.steps.steps import MAX_CHUNKS, Steps
from treadle.schedules.trees.forest import Direction
from treadle.topologies.catalogue.direct import in_links
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.expansions import (
    cartesian_power,
    degree_expansion,
    line_graph,
)


def line_graph_schedule(topology: Topology, steps: Steps, n: int = 1) -> tuple[Topology, Steps]:
    """Line graph of a graph, `n` times, with its schedule (Definition 1).

    Parameters
    ----------
    topology : Topology
        G, d-regular; parallel arcs and self-loops are fine.
    steps : Steps
        Allgather (or reduce-scatter) steps of G: shard v owned by rank v.
    n : int
        How many times, at least 1.

    Returns
    -------
    (Topology, Steps)
        `line_graph(topology, n)` and its steps, of the same direction and chunk count.

    Raises
    ------
    TopologyError
        If the graph is not regular, or the result would be too large.
    ScheduleError
        If the steps are not about one shard per node of the graph.

    Notes
    -----
    Every expansion puts one step before the others: nodes send their shards to their neighbours. Then what
    crossed link e = (u, w), shard v say, crosses all arcs (e, f) of the line graph as the shards of all links
    into v. Only f does not get the shard that is its own: this makes the schedule cheaper than Theorem 7's
    bound on some graphs.

    Examples
    --------
    >>> from treadle.schedules.steps.steps import steps_from_sends
    >>> from treadle.topologies.catalogue.graphs import complete
    >>> base = complete(3)
    >>> sends = [(int(u), e, 0, 0, 1) for e, u in enumerate(base.tails)]
    >>> line_graph_schedule(base, steps_from_sends(Direction.BROADCAST, 3, 1, sends))[1]
    <Steps broadcast: 6 ranks, 6 shards of 1 chunks, 2 steps, 30 sends>
    """
    expanded = line_graph(topology, n)
    _check_steps("line_graph_schedule", topology, steps)
    for left in reversed(range(n)):
        steps = _either_way(_line_graph, topology, steps, 1, _line_graph_numbers)
        topology = line_graph(topology) if left else expanded
    return expanded, steps


def _line_graph(topology: Topology, steps: Steps, _: int) -> Steps:
    ins, outs = in_links(topology), in_links(topology.transpose())
    size, degree = ins.shape
    # Definition 1, item 1: arc (e, f), number e * d + k, carries the shard of e.
    own = np.arange(size * degree, dtype=np.int32)
    first_keep = (outs[topology.heads] != own[:, None]).ravel()
    first_link = np.flatnonzero(first_keep).astype(np.int32)
    # Item 2, with axes (send, arc into the shard's home, arc out of the head).
    shard = ins[steps.shard][:, :, None]
    follower = outs[topology.heads[steps.link]][:, None, :]
    keep = shard != follower
    link = (steps.link * np.int32(degree))[:, None, None] + np.arange(degree, dtype=np.int32)
    counts = keep.sum(axis=(1, 2))
    ends = offsets_of(counts)
    offset = np.concatenate(([0], len(first_link) + ends[steps.step_offset]))
    last = int(np.searchsorted(offset, offset[-1]))  # a ring's last step became empty
    low = np.concatenate((np.zeros_like(first_link), np.repeat(steps.low, counts)))
    high = np.concatenate((np.full_like(first_link, steps.n_chunks), np.repeat(steps.high, counts)))
    return _steps(
        size * degree,
        steps.n_chunks,
        offset[: last + 1],
        np.concatenate((first_link // np.int32(degree), np.broadcast_to(shard, keep.shape)[keep])),
        np.concatenate((first_link, np.broadcast_to(link, keep.shape)[keep])),
        low,
        high,
    )


def _line_graph_numbers(topology: Topology, _: int) -> Int64Array:
    """Number in the line graph of each arc (f, e), in the order of the arcs (e, f) of the transpose's."""
    turned = line_graph(topology.transpose())
    return positions_of(turned.n_links, np.lexsort((turned.tails, turned.heads)))


def degree_expansion_schedule(topology: Topology, steps: Steps, n: int) -> tuple[Topology, Steps]:
    """Degree expansion of a graph with its schedule (Definition 2).

    Parameters
    ----------
    topology : Topology
        G, d-regular without self-loops.
    steps : Steps
        Allgather (or reduce-scatter) steps of G: shard v owned by rank v.
    n : int
        Copies, at least 1.

    Returns
    -------
    (Topology, Steps)
        `degree_expansion(topology, n)` and its steps. Data stay in the copy where they started until the last
        hop; for n > 1 one more step brings every shard to the other copies of its owner, over all n * d links
        evenly, so that the number of chunks becomes a multiple of n * d.

    Raises
    ------
    TopologyError
        If the graph is not regular or has self-loops, or the result would be too large.
    ScheduleError
        If the steps are not about one shard per node of the graph, or too many chunks would be needed.
    """
    expanded = degree_expansion(topology, n)
    _check_steps("degree_expansion_schedule", topology, steps)
    return expanded, _either_way(_degree_expansion, topology, steps, n, _degree_expansion_numbers)


def _degree_expansion(topology: Topology, steps: Steps, n: int) -> Steps:
    ins = in_links(topology)
    size, degree = ins.shape
    m = topology.n_links
    ports = n * degree
    chunks = _checked_chunks(lcm(steps.n_chunks, ports) if n > 1 else steps.n_chunks)
    copy = np.arange(n, dtype=np.int32)
    # Item 1, with axes (send, copy j of the shard and the tail, copy i of the head).
    all_copies = (steps.n_sends, n, n)
    pairs = copy[:, None] * np.int32(n) + copy
    shard = np.broadcast_to(steps.shard[:, None, None] + (copy * np.int32(size))[:, None], all_copies)
    link = steps.link[:, None, None] + pairs * np.int32(m)
    scale = chunks // steps.n_chunks
    offset = steps.step_offset * (n * n)
    columns = [
        shard.ravel(),
        link.ravel(),
        np.repeat(steps.low * np.int32(scale), n * n),
        np.repeat(steps.high * np.int32(scale), n * n),
    ]
    if n > 1:
        # Item 2, with axes (home i, receiver j, node u, copy k of the tail, link into u).
        i, j, u, k, _ = np.ix_(copy, copy, np.arange(size, dtype=np.int32), copy, np.arange(degree))
        everywhere = (n, n, size, n, degree)
        keep = np.broadcast_to(i != j, everywhere)
        port = k * np.int32(degree) + np.arange(degree, dtype=np.int32)
        part = chunks // ports
        last = [i * np.int32(size) + u, (k * np.int32(n) + j) * np.int32(m) + ins[None, None, :, None, :]]
        last += [port * np.int32(part), (port + 1) * np.int32(part)]
        columns = [
            np.concatenate((column, np.broadcast_to(added, everywhere)[keep]))
            for column, added in zip(columns, last, strict=True)
        ]
        offset = np.append(offset, len(columns[0]))
    return _steps(size * n, chunks, offset, *columns)


def _degree_expansion_numbers(topology: Topology, n: int) -> Int64Array:
    """Number of the arc from copy j to copy i along link e, in the order of the transpose's (i, j, e)."""
    arcs = np.arange(n * n * topology.n_links, dtype=np.int64).reshape(n, n, topology.n_links)
    return arcs.transpose(1, 0, 2).ravel()


def cartesian_power_schedule(topology: Topology, steps: Steps, n: int) -> tuple[Topology, Steps]:
    """Cartesian power of a graph with its schedule (Definition 14).

    Parameters
    ----------
    topology : Topology
        G, any graph that the steps fit.
    steps : Steps
        Allgather (or reduce-scatter) steps of G: shard v owned by rank v.
    n : int
        Dimensions, at least 1.

    Returns
    -------
    (Topology, Steps)
        `cartesian_power(topology, n)` and its steps: every shard is cut into `n` parts; part r is gathered
        along dimension r, then r + 1, and so on round, so that the parts never share a link in a step.

    Raises
    ------
    TopologyError
        If the result would be too large.
    ScheduleError
        If the steps are not about one shard per node of the graph, or too many chunks would be needed.
    """
    expanded = cartesian_power(topology, n)
    _check_steps("cartesian_power_schedule", topology, steps)
    return expanded, _either_way(_cartesian_power, topology, steps, n, _cartesian_power_numbers)


def _cartesian_power(topology: Topology, steps: Steps, n: int) -> Steps:
    chunks = _checked_chunks(steps.n_chunks * n)
    blocks = [block for phase in range(n) for block in _power_phase(topology, steps, n, phase)]
    lengths = [len(block[0]) for block in blocks]
    # Blocks of one step are neighbours: n parts per step of the base, in every phase.
    offset = offsets_of(lengths)[::n]
    columns = [np.concatenate([block[key] for block in blocks]) for key in range(4)]
    return _steps(topology.n_nodes**n, chunks, offset, *columns)


def _power_phase(topology: Topology, steps: Steps, n: int, phase: int) -> Iterator[tuple[Int32Array, ...]]:
    """Sends of Definition 14 for j = `phase` + 1: a block per step and part, in this order.

    Coordinate c of the first part's schedule is coordinate (c + part) mod n of part's: item 3's rotation.
    """
    size, m = topology.n_nodes, topology.n_links
    node_weights = [size ** (n - 1 - q) for q in range(n)]
    for step in range(steps.n_steps):
        span = steps.span(step)
        shard, link = steps.shard[span], steps.link[span]
        for part in range(n):
            place = [(c + part) % n for c in range(n)]
            axis = place[phase]
            # Weight of a coordinate in the number of the rest: the coordinates after it, but for the axis.
            rest_weights = [m * (node_weights[q] // size if q < axis else node_weights[q]) for q in range(n)]
            x = _mixed(size, [node_weights[q] for q in place[:phase]])
            y = _mixed(size, [rest_weights[q] for q in place[:phase]])
            z = _mixed(size, [node_weights[q] for q in place[phase + 1 :]])
            z_rest = _mixed(size, [rest_weights[q] for q in place[phase + 1 :]])
            shape = (len(x), len(y), len(z), len(shard))
            shards = (x[:, None, None, None] + z[:, None]) + shard * np.int32(node_weights[axis])
            links = (y[:, None, None] + z_rest[:, None]) + (link + np.int32(axis * m * size ** (n - 1)))
            shift = np.int32(part * steps.n_chunks)
            yield (
                np.broadcast_to(shards, shape).ravel(),
                np.broadcast_to(links, shape).ravel(),
                np.broadcast_to(steps.low[span] + shift, shape).ravel(),
                np.broadcast_to(steps.high[span] + shift, shape).ravel(),
            )


def _mixed(base: int, weights: list[int]) -> Int32Array:
    """Sums of digits times weights for all tuples of digits below `base`, the first digit varying slowest."""
    sums = np.zeros(1, dtype=np.int32)
    for weight in weights:
        sums = (sums[:, None] + np.arange(base, dtype=np.int32) * np.int32(weight)).ravel()
    return sums


def _cartesian_power_numbers(topology: Topology, n: int) -> Int64Array:
    """The power of the transpose numbers its arcs as the power does."""
    return np.arange(n * topology.n_links * topology.n_nodes ** (n - 1), dtype=np.int64)


def _either_way(
    expand: Callable[[Topology, Steps, int], Steps],
    topology: Topology,
    steps: Steps,
    n: int,
    numbers: Callable[[Topology, int], Int64Array],
) -> Steps:
    """`expand` for allgather; for reduce-scatter, Corollary 1.2 with it.

    `numbers` translates arcs of the transpose's expansion to those of the expansion.
    """
    if steps.direction is Direction.BROADCAST:
        return expand(topology, steps, n)
    turned = reverse(expand(topology.transpose(), reverse(steps), n))
    return replace(turned, link=_frozen(numbers(topology, n)[turned.link]))


def _check_steps(function: str, topology: Topology, steps: Steps) -> None:
    """Reject steps that are not about one shard per node of the graph, over its links."""
    n = topology.n_nodes
    if steps.n_ranks != n or not np.array_equal(steps.homes, np.arange(n)):
        raise ScheduleError(
            f"{function}: {topology.name} has {n} nodes; expected steps with shard v owned by rank v, "
            f"found {steps.n_shards} shards on {steps.n_ranks} ranks"
        )
    if not steps.n_sends:
        raise ScheduleError(f"{function}: the steps of {topology.name} send nothing")
    if int(steps.link.max()) >= topology.n_links:
        raise ScheduleError(
            f"{function}: the steps use link {int(steps.link.max())}; {topology.name} has {topology.n_links}"
        )


def _checked_chunks(chunks: int) -> int:
    if chunks > MAX_CHUNKS:
        raise ScheduleError(f"the expanded schedule needs {chunks} chunks per shard, at most {MAX_CHUNKS}")
    return chunks


def _steps(n_ranks: int, n_chunks: int, offset: Int64Array, *columns: NDArray[np.integer]) -> Steps:
    """Return allgather steps from (shard, link, low, high), arrays that this module does not keep."""
    shard, link, low, high = map(_frozen, columns)
    return Steps(
        direction=Direction.BROADCAST,
        n_ranks=n_ranks,
        homes=np.arange(n_ranks, dtype=np.int32),
        n_chunks=n_chunks,
        step_offset=offset.astype(np.int64),
        shard=shard,
        link=link,
        low=low,
        high=high,
    )


def _frozen(values: NDArray[np.integer]) -> Int32Array:
    """The values as read-only int32; the array itself where it is one already."""
    array = np.ascontiguousarray(values, dtype=np.int32)
    array.setflags(write=False)
    return array
