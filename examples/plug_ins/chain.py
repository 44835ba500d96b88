"""A chain: data goes from rank to rank, in their order."""

from __future__ import annotations

import numpy as np

from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.synthesis.trees.baselines.embedding import ForestBuilder, compose
from treadle.topologies.topology import Topology


def chain(topology: Topology, collective: Collective) -> ForestSchedule:
    """One tree per root: its two neighbours in rank order get the data from it, theirs from them."""
    return compose(topology, collective, _chains)


def _chains(topology: Topology, collective: Collective) -> Forest:
    builder, ranks = ForestBuilder(topology, collective), np.arange(collective.n_ranks)
    for root, weight in enumerate(collective.shard_weights):
        if weight:
            towards_root = ranks - np.sign(ranks - root)
            builder.add_logical(root, weight, np.where(ranks == root, -1, towards_root).astype(np.int32))
    return builder.build()
