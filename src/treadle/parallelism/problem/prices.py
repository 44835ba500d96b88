"""Seconds between states of tensors, computed once for equal tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from treadle.parallelism.graph.compute_graph import ComputeGraph, TensorRef
from treadle.parallelism.state.seconds_table import seconds_between
from treadle.parallelism.state.sharding import Sharding
from treadle.training.costs import Costs, RememberedCosts

Key = tuple[tuple[int, ...], int, tuple[Sharding, ...], tuple[Sharding, ...]]


class StatePrices:
    """Tables of seconds between states of tensors.

    Unsharded factors of a tensor are left out but one, the one that most ranks divide, on which a
    collective may lay parts in between.

    Parameters
    ----------
    sizes : mapping from axis to its ranks
    costs : Costs
    """

    def __init__(self, sizes: Mapping[str, int], costs: Costs) -> None:
        self.sizes = dict(sizes)
        self.costs = RememberedCosts(costs)
        self._tables: dict[Key, NDArray[np.float64]] = {}

    def seconds(
        self,
        graph: ComputeGraph,
        tensor: TensorRef,
        sources: Sequence[Sharding],
        targets: Sequence[Sharding],
    ) -> NDArray[np.float64]:
        """Return the least seconds from each source to each target, states over the tensor's flat factors."""
        factor_sizes = graph.factor_sizes(tensor)
        used = {at for state in (*sources, *targets) for at, axes in enumerate(state.dims) if axes}
        rest = [at for at, size in enumerate(factor_sizes) if at not in used and size > 1]
        if rest:

            def n_cuts(at: int) -> int:
                cuts = 1
                for ranks in self.sizes.values():
                    cuts *= ranks if factor_sizes[at] % (cuts * ranks) == 0 else 1
                return cuts

            used.add(max(rest, key=n_cuts))
        kept = sorted(used)
        shape = tuple(factor_sizes[at] for at in kept)
        whole = graph.nbytes(tensor)
        element_bytes = whole // int(np.prod(shape, dtype=object)) if shape else whole
        mine, theirs = (
            tuple(Sharding(tuple(one.dims[at] for at in kept), one.partial) for one in side)
            for side in (sources, targets)
        )
        key = shape, element_bytes, mine, theirs
        if key not in self._tables:
            self._tables[key] = seconds_between(
                mine, theirs, shape=shape, element_bytes=element_bytes, sizes=self.sizes, costs=self.costs
            )
        return self._tables[key]
