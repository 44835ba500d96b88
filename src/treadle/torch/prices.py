"""Prices of collectives for compilers of PyTorch: Inductor's overlap scheduling, and autoparallel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist

from treadle.api.price import price
from treadle.errors import MissingDependencyError
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.problem import resolve_topology

_OPERATORS = {
    "all_gather_into_tensor": "allgather",
    "reduce_scatter_tensor": "reduce-scatter",
    "all_reduce": "allreduce",
    "all_to_all_single": "alltoall",
    "broadcast": "broadcast",
}
"""Beginnings of names of functional collectives; ``_coalesced``, ``_out`` and ``_`` may follow."""
_AUTOPARALLEL = "autoparallel.cost_models.collective_runtime_estimation"
_AUTOPARALLEL_NAMES = {"reduce_scatter": "reduce-scatter", "all_to_all": "alltoall"}


def inductor_estimator(
    topology: FabricLike, *, kind: str | None = None
) -> Callable[[torch.fx.Node, int | None], float | None]:
    """Return milliseconds of functional collectives, for Inductor's ``custom_runtime_estimation``.

    Parameters
    ----------
    topology : Topology, str, Path, networkx.Graph, plan or result
        Its compute nodes are the ranks of the job, in order.
    kind : str, optional
        Kind of price, see `treadle.price`.

    Returns
    -------
    callable
        Of a node and, optionally, bytes of its inputs and outputs in the place of its own (0: latency alone).
        None for other nodes: PyTorch then estimates by itself.

    Examples
    --------
    >>> import torch._inductor.config
    >>> from treadle.torch import inductor_estimator
    >>> options = torch._inductor.config.aten_distributed_optimizations
    >>> options.custom_runtime_estimation = inductor_estimator("dgx_h100:2")
    """
    from torch._inductor.comm_analysis import estimate_fx_collective_size
    from torch._inductor.fx_passes.overlap_scheduling import get_group_name

    fabric = resolve_topology(topology)

    def estimate(node: torch.fx.Node, override_size: int | None = None) -> float | None:
        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or target.namespace != "_c10d_functional":
            return None
        name = target._opname
        collective = next((own for start, own in _OPERATORS.items() if name.startswith(start)), None)
        if collective is None:
            return None
        group = dist.distributed_c10d._resolve_process_group(get_group_name(node))
        ranks = dist.get_process_group_ranks(group)
        if len(ranks) < 2:
            return 0.0
        both = estimate_fx_collective_size(node) if override_size is None else override_size
        is_gather = collective in ("allgather", "reduce-scatter")
        size = both * len(ranks) // (len(ranks) + 1) if is_gather else both // 2
        return 1e3 * price(fabric, ranks, collective, max(size, 1), kind=kind).time_s

    return estimate


def autoparallel_cost(topology: FabricLike, *, kind: str | None = None) -> Callable[..., float]:
    """Return a function like autoparallel's ``collective_comm_cost``: microseconds.

    Parameters
    ----------
    topology : Topology, str, Path, networkx.Graph, plan or result
        Its compute nodes are the ranks of the mesh, in order.
    kind : str, optional
        Kind of price, see `treadle.price`.

    Examples
    --------
    >>> from treadle.torch import autoparallel_cost
    >>> round(autoparallel_cost("dgx_h100:2")("allgather", 2**26, (2, 8), 0))
    873
    """
    fabric = resolve_topology(topology)

    def collective_comm_cost(
        collective: str, comm_bytes: int, mesh_shape: Sequence[int], mesh_dim: int, mesh_topo: object = None
    ) -> float:
        del mesh_topo
        if mesh_shape[mesh_dim] < 2:
            return 0.0
        group = f"{','.join(map(str, mesh_shape))}:{mesh_dim}"
        name = _AUTOPARALLEL_NAMES.get(collective, collective)
        return 1e6 * price(fabric, group, name, max(int(comm_bytes), 1), kind=kind).time_s

    return collective_comm_cost


@contextmanager
def autoparallel_prices(topology: FabricLike, *, kind: str | None = None) -> Iterator[None]:
    """Let autoparallel take prices of this fabric, whatever cost model it was given.

    Parameters
    ----------
    topology : Topology, str, Path, networkx.Graph, plan or result
    kind : str, optional
        See `autoparallel_cost`.

    Raises
    ------
    MissingDependencyError
        If meta-pytorch/autoparallel is not installed.
    """
    try:
        estimation: Any = import_module(_AUTOPARALLEL)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"autoparallel_prices needs meta-pytorch/autoparallel: {error}; install it from its "
            f"source, since PyPI's autoparallel is another project"
        ) from None
    original, own = estimation.collective_comm_cost, autoparallel_cost(topology, kind=kind)
    _exchange(original, own)
    estimation.reset_comms_cost_cache()
    try:
        yield
    finally:
        _exchange(own, original)
        estimation.reset_comms_cost_cache()


def _exchange(old: object, new: object) -> None:
    """Put a function in the place of another in all modules of autoparallel, which import it by name."""
    loaded: dict[str, Any] = dict(sys.modules)
    for name, module in loaded.items():
        if name.partition(".")[0] == "autoparallel" and vars(module).get("collective_comm_cost") is old:
            module.collective_comm_cost = new
