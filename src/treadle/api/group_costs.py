"""Cost of a collective in all groups of a mesh running concurrently, for placing training on a fabric."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from treadle.api.bound import bound
from treadle.api.simulate import simulate
from treadle.api.solve import solve
from treadle.brief import brief
from treadle.checking import checked
from treadle.errors import ScheduleError
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.meshes import AxesLike, as_axes, as_mesh
from treadle.inputs.problem import resolve_kind, resolve_topology
from treadle.notebook import displayed, own_repr
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.simulation.cost_models import CostModelLike
from treadle.simulation.simulated_plans import SimulationOptions
from treadle.tabular import Cell, plain_row
from treadle.topologies.files import topology_hash
from treadle.topologies.topology import Topology
from treadle.training.prices.message_costs import MessageCosts, message_costs

CURVE_BYTES = tuple(4**power for power in range(5, 16))
"""Sizes of a curve: 1 KB to 1 GB."""

_MOST_KNOWN = 4096


@brief("kind", "axes", "algbw", "is_exact")
@dataclass(frozen=True)
class GroupCost:
    """Rate of a collective in all groups over some axes, running concurrently.

    Parameters
    ----------
    kind : CollectiveKind
    axes : tuple of str
    n_groups, group_size : int
    algbw : Fraction
        Bytes/s of every group; no schedule reaches more.
    is_exact : bool
        Schedules reach it.

    Examples
    --------
    >>> from treadle import planning
    >>> cost = planning.group_costs("dgx_h100:2", "dp=2,tp=8").cost("allgather", "tp")
    >>> cost.n_groups, cost.group_size, cost.algbw, cost.is_exact
    (2, 8, Fraction(4000000000000, 7), True)
    """

    kind: CollectiveKind
    axes: tuple[str, ...]
    n_groups: int
    group_size: int
    algbw: Fraction
    is_exact: bool


@displayed(own_repr)
class GroupCosts:
    """Rates and times of collectives in the groups of a mesh; each is computed when first used.

    Parameters
    ----------
    topology : Topology
    mesh : Mesh
    forward : bool
        Ranks of other groups pass data on.
    messages : MessageCosts
        For the times.

    Notes
    -----
    Rates are exact. Times are those of `solve`'s plan, all groups together, in the simulator with these
    costs: a model, not a measurement. Rates are cached by the fabric's hash as long as the process lives.

    Examples
    --------
    >>> from treadle import planning
    >>> costs = planning.group_costs("dgx_h100:2", "dp=2,tp=8")
    >>> [float(costs.cost("allreduce", axis).algbw) / 1e9 for axis in ("dp", "tp")]
    [50.0, 285.7142857142857]
    """

    def __init__(self, topology: Topology, mesh: Mesh, *, forward: bool, messages: MessageCosts) -> None:
        n = len(topology.compute_nodes)
        if mesh.n_ranks != n:
            raise ScheduleError(
                f"mesh {mesh.notation}: it lays out {mesh.n_ranks} ranks, and {topology.name} has {n}"
            )
        self.topology, self.mesh, self.forward, self.messages = topology, mesh, forward, messages
        self._curves: dict[tuple[CollectiveKind, tuple[str, ...]], tuple[float, ...]] = {}

    def __repr__(self) -> str:
        return f"<GroupCosts {self.topology.name}, {self.mesh.notation}{', forwarding' * self.forward}>"

    def fabric_to_draw(self) -> Topology:
        """For notebooks."""
        return self.topology

    def records(self) -> list[dict[str, Cell]]:
        """Return a row for each rate computed so far, here or by another value of this fabric and mesh."""
        own = (self._hash, self.mesh, self.forward)
        return [
            plain_row(
                {
                    "collective": cost.kind,
                    "axes": ",".join(cost.axes),
                    "groups": cost.n_groups,
                    "ranks": cost.group_size,
                    "algbw_bytes_per_s": cost.algbw,
                    "is_exact": cost.is_exact,
                }
            )
            for known, cost in _KNOWN.items()
            if known[:3] == own
        ]

    @cached_property
    def _hash(self) -> str:
        return topology_hash(self.topology)

    def cost(self, kind: CollectiveKind | str, axes: AxesLike) -> GroupCost:
        """Return the rate of a collective over these axes; several make one group over all of them.

        Raises
        ------
        ScheduleError
            If the mesh has no such axes, or a group would have one rank.
        InfeasibleError
            If the ranks of a group do not reach each other.
        """
        meant, over = resolve_kind(kind), as_axes(axes)
        key = (self._hash, self.mesh, self.forward, meant, over)
        if key not in _KNOWN:
            groups = self.mesh.groups(over)
            found = bound(self.topology, meant, mesh=self.mesh, axes=over, forward=self.forward)
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[key] = GroupCost(
                meant, over, len(groups), len(groups[0]), found.algbw, found.bound.is_tight
            )
        return _KNOWN[key]

    def curve(self, kind: CollectiveKind | str, axes: AxesLike) -> tuple[tuple[int, float], ...]:
        """Return simulated seconds at `CURVE_BYTES`, bytes of the larger per-rank buffer of a group."""
        meant, over = resolve_kind(kind), as_axes(axes)
        if (meant, over) not in self._curves:
            found = solve(self.topology, meant, mesh=self.mesh, axes=over, forward=self.forward)
            options = SimulationOptions(alpha_ns=self.messages.alpha_ns)
            model = self.messages.model
            rows = simulate(found, CURVE_BYTES, options=options, cost_model=model).rows
            self._curves[meant, over] = tuple(float(row.time) for row in rows)
        return tuple(zip(CURVE_BYTES, self._curves[meant, over], strict=True))

    def time_s(self, kind: CollectiveKind | str, axes: AxesLike, size_bytes: float) -> float:
        """Return seconds for a size, interpolated on the curve; beyond its end by the rate."""
        if size_bytes <= 0:
            raise ScheduleError(f"size {size_bytes} bytes, expected more than 0")
        curve = self.curve(kind, axes)
        sizes, times = [size for size, _ in curve], [time for _, time in curve]
        place = bisect_left(sizes, size_bytes)
        if place == 0:
            return times[0]
        if place == len(sizes):
            return times[-1] + (size_bytes - sizes[-1]) / float(self.cost(kind, axes).algbw)
        share = (size_bytes - sizes[place - 1]) / (sizes[place] - sizes[place - 1])
        return times[place - 1] + share * (times[place] - times[place - 1])


_KNOWN: dict[tuple[str, Mesh, bool, CollectiveKind, tuple[str, ...]], GroupCost] = {}
"""Rates computed in this process, by the hash of the fabric, mesh, forwarding, collective and axes."""


@checked()
def group_costs(
    topology: FabricLike,
    mesh: Mesh | str,
    *,
    forward: bool = False,
    alpha_s: float | None = None,
    cost_model: CostModelLike | None = None,
    file_format: str | None = None,
) -> GroupCosts:
    """Exact rates, and simulated times by size, of collectives in all concurrent groups of a mesh.

    Parameters
    ----------
    topology : Topology, str, Path, networkx.Graph, plan or result
    mesh : Mesh or str
        ``dp=16,tp=8``; as many ranks as the fabric has compute nodes.
    forward : bool
        Ranks of other groups pass data on.
    alpha_s : float, optional
        Latency of every message, for the times, in place of a cost model.
    cost_model : CostModel, str or Path, optional
        What messages cost; default that of the fabric, `default_cost_model`.
    file_format : str, optional
        Of the file that `topology` names.

    Examples
    --------
    >>> from treadle import planning
    >>> costs = planning.group_costs("dgx_h100:4", "dp=4,tp=8")
    >>> float(costs.cost("allgather", "tp").algbw) / 1e9
    571.4285714285714
    """
    fabric = resolve_topology(topology, file_format=file_format)
    messages = message_costs(fabric, alpha_s=alpha_s, cost_model=cost_model)
    return GroupCosts(fabric, as_mesh(mesh), forward=forward, messages=messages)
