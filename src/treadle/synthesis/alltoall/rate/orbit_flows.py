"""Flows of all senders from those of one per orbit, by the automorphisms that move one to another.

The average of an optimal flow over all automorphisms is as good and looks alike from all ranks of an orbit,
so a program for one sender of each is enough; this module writes out the others' flows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, positions_of
from treadle.errors import ScheduleError
from treadle.math.symmetry import join_orbits
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry, sender_images

_BATCH = 32
_MAX_ENTRIES = 2**27
"""Senders times links at most, half a gigabyte."""


def sender_moves(instance: FlowInstance, symmetry: FlowSymmetry) -> NDArray[np.int32]:
    """For each sender the map of links by which its representative's flow becomes its own, shape (S, m)."""
    n, m = instance.n_sources, instance.topology.n_links
    if n * m > _MAX_ENTRIES:
        raise ScheduleError(
            f"{instance.topology.name}: flows of {n} senders over {m} links do not fit; use the "
            f"representatives' flows"
        )
    moves = np.full((n, m), -1, dtype=np.int32)
    moves[symmetry.representatives] = np.arange(m)
    reached = symmetry.representatives.tolist()
    images = [sender_images(instance, node_map) for node_map in symmetry.node_maps]
    for row in reached:
        for image, links in zip(images, symmetry.link_maps, strict=True):
            if moves[image[row], 0] < 0:
                moves[image[row]] = links[moves[row]]
                reached.append(int(image[row]))
    assert len(reached) == n
    return moves


def averaging_labels(
    instance: FlowInstance, symmetry: FlowSymmetry, moves: NDArray[np.int32]
) -> Iterator[list[Int64Array]]:
    """Orbits of links under growing parts of each representative's stabiliser, none first."""
    m = instance.topology.n_links
    labels = [np.arange(m, dtype=np.int64) for _ in symmetry.representatives]
    yield labels
    images = [sender_images(instance, node_map) for node_map in symmetry.node_maps]
    work = [(row, number) for row in range(instance.n_sources) for number in range(len(images))]
    # in random order a few of Schreier's generators mostly generate the whole stabiliser
    order = np.random.default_rng(0).permutation(len(work)).tolist()
    for first in range(0, len(order), _BATCH):
        for row, number in (work[place] for place in order[first : first + _BATCH]):
            home = int(symmetry.sender_orbit[row])
            back = positions_of(m, moves[images[number][row]])
            labels[home] = join_orbits(labels[home], back[symmetry.link_maps[number][moves[row]]])
        yield labels
