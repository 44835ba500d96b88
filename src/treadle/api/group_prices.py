"""Prices of collectives in a group of ranks, by the best kind there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from treadle.brief import brief
from treadle.checking import checked
from treadle.errors import ScheduleError
from treadle.inputs.fabrics_and_plans import FabricLike, as_size
from treadle.inputs.meshes import as_axes, as_mesh, groups_of
from treadle.inputs.problem import resolve_kind, resolve_topology, select_ranks
from treadle.machines.achievable import Achievable, achievable
from treadle.machines.libraries import library_of, scaled_time
from treadle.machines.system import System, system_of, system_of_groups
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.spelling import known_name
from treadle.topologies import subset
from treadle.topologies.expressions import names_fabric
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

if TYPE_CHECKING:
    from treadle.api.group_costs import GroupCosts


class PriceKind(StrEnum):
    """Kinds of prices, the best first.

    Examples
    --------
    >>> from treadle import planning
    >>> [kind.value for kind in planning.PriceKind]
    ['measured-fit', 'library-model', 'simulated', 'bound']
    """

    MEASURED_FIT = "measured-fit"
    LIBRARY_MODEL = "library-model"
    SIMULATED = "simulated"
    BOUND = "bound"


@brief("collective", "mesh", "axes", "topology")
@dataclass(frozen=True)
class PricedGroup:
    """Groups over axes of a mesh on a fabric, and a collective that is concurrent in all of them.

    Parameters
    ----------
    topology : Topology
    mesh : Mesh
    axes : tuple of str
    collective : CollectiveKind
    is_alone : bool
        The fabric has the ranks of one group only, since the others idle.

    Examples
    --------
    >>> import treadle
    >>> treadle.price("dgx_h100:2", [0, 1, 8, 9], "allgather", "1MB").group.mesh
    <Mesh 1,2,4,2,1>
    """

    topology: Topology
    mesh: Mesh
    axes: tuple[str, ...]
    collective: CollectiveKind
    is_alone: bool = False


@brief("kind", "time_s", "low_s", "high_s", "source")
@dataclass(frozen=True)
class Price:
    """Time of a collective in a group of ranks.

    Parameters
    ----------
    time_s : float
    low_s, high_s : float, optional
        Band; None where nothing measured says how wide it is.
    kind : PriceKind
    source : str
        Model, choice and measurements behind the time.
    size_bytes : int
        Larger buffer of a rank.
    group : PricedGroup

    Examples
    --------
    >>> import treadle
    >>> treadle.price("mi300x:1", range(8), "allreduce", "8MB").source.partition(":")[0]
    'RCCL 2.21.5, 28 channels x 12 GB/s'
    """

    time_s: float
    low_s: float | None
    high_s: float | None
    kind: PriceKind
    source: str
    size_bytes: int
    group: PricedGroup

    @property
    def optimum(self) -> Fraction:
        """Highest algbw that a schedule has on nominal links, all groups concurrent; cached."""
        return _costs(self.group).cost(self.group.collective, self.group.axes).algbw


Timed = tuple[float, float | None, float | None, str]
"""Time, band and source."""
TimeOf = Callable[[int], Timed]
Pricer = Callable[[int | str], Price]


def is_constant(topology: FabricLike) -> bool:
    """Whether a fabric stays as it is: no file or graph, which may change."""
    return isinstance(topology, Topology) or (isinstance(topology, str) and names_fabric(topology))


@checked("price")
def group_pricer(
    topology: FabricLike,
    group: Sequence[int] | str,
    collective: CollectiveKind | str,
    kind: PriceKind | str | None = None,
) -> Pricer:
    """Return the function that prices sizes; for parameters see `treadle.price`."""
    fabric = resolve_topology(topology)
    meant = group if isinstance(group, str) else tuple(map(int, group))
    chosen = None if kind is None else PriceKind(known_name("kind", str(kind), list(PriceKind)))
    return _pricer(fabric, meant, resolve_kind(collective), chosen)


@lru_cache(maxsize=1024)
def _pricer(
    topology: Topology, text: tuple[int, ...] | str, collective: CollectiveKind, chosen: PriceKind | None
) -> Pricer:
    group, groups = _grouped(topology, text, collective)
    system = system_of_groups(topology, groups)
    for kind in PriceKind if chosen is None else (chosen,):
        found = _time_of(kind, topology, system, group)
        if not isinstance(found, Unsupported):
            break
    else:
        raise ScheduleError(f"{chosen}: no price of {collective} on {topology.name}: {found}")
    time_of = found

    def price(size: int | str) -> Price:
        n_bytes = size if type(size) is int else as_size(size, "price: size")
        if n_bytes is None or n_bytes < 1:
            raise ScheduleError(f"price: size {size}, expected at least 1 byte")
        time_s, low_s, high_s, source = time_of(n_bytes)
        return Price(time_s, low_s, high_s, kind, source, n_bytes, group)

    return price


def _grouped(
    topology: Topology, text: tuple[int, ...] | str, collective: CollectiveKind
) -> tuple[PricedGroup, Sequence[Sequence[int]]]:
    """Return what is priced, and the ranks of its groups on the whole fabric."""
    n = len(topology.compute_nodes)
    if isinstance(text, str) and ":" in text:
        mesh, axes = as_mesh(text.rpartition(":")[0]), as_axes(text.rpartition(":")[2])
        return PricedGroup(topology, mesh, axes, collective), groups_of(mesh, axes, n, topology.name) or ()
    ranks = tuple(sorted(select_ranks(topology, text)))
    if len(ranks) < 2:
        raise ScheduleError(f"{topology.name}: {collective} needs at least 2 ranks, found {len(ranks)}")
    if (found := mesh_around(ranks, n)) is not None:
        return PricedGroup(topology, *found, collective), found[0].groups(found[1])
    alone = subset(topology, *ranks)
    return PricedGroup(alone, Mesh((len(ranks),), ("0",)), ("0",), collective, is_alone=True), (ranks,)


def mesh_around(ranks: Sequence[int], n_ranks: int) -> tuple[Mesh, tuple[str, ...]] | None:
    """Return a mesh of all ranks and the axes over which these, in rising order, are one group.

    Examples
    --------
    >>> mesh_around([1, 3, 9, 11], 16)
    (<Mesh 1,2,2,2,2>, ('1', '3'))
    """
    shape: list[int] = []
    width, firsts = 1, [rank - ranks[0] for rank in ranks]
    while len(firsts) > 1:
        stride = firsts[1]
        count = next((at for at, rank in enumerate(firsts) if rank != at * stride), len(firsts))
        if stride % width or len(firsts) % count:
            return None
        shape, width, firsts = [count, stride // width, *shape], stride * count, firsts[::count]
    shape = [n_ranks // width, *shape]
    mesh = Mesh(tuple(shape), tuple(map(str, range(len(shape))))) if n_ranks % width == 0 else None
    axes = tuple(map(str, range(1, len(shape), 2)))
    return None if mesh is None or tuple(ranks) not in mesh.groups(axes) else (mesh, axes)


def _time_of(
    kind: PriceKind, topology: Topology, system: System | Unsupported, group: PricedGroup
) -> TimeOf | Unsupported:
    """Return the function that gives times of this kind, or why none exists."""
    collective, axes, others = group.collective, group.axes, ", other ranks idle" if group.is_alone else ""
    if kind is PriceKind.SIMULATED:
        # None: the fabric's default
        costs = _costs(group, system.cost_preset if isinstance(system, System) else None)
        source = f"plan of solve, cost model {costs.messages.model and costs.messages.model.name}{others}"
        return lambda size: (costs.time_s(collective, axes, size), None, None, source)
    if kind is PriceKind.BOUND:
        cost = _costs(group).cost(collective, axes)
        source = f"{'optimum' if cost.is_exact else 'upper bound'} of nominal links, no latency{others}"
        algbw = float(cost.algbw)
        return lambda size: (size / algbw, None, None, source)
    if isinstance(system, Unsupported):
        return system
    n_ranks = system.boxes * system.gpus_per_box
    if kind is PriceKind.MEASURED_FIT:
        # rows are of boxes as a whole, in which some GPUs may idle: NVSwitches serve groups independently
        whole = system_of(topology)
        if isinstance(whole, System) and system.boxes == 1 and whole.has_switch:
            system = whole.group(1, whole.gpus_per_box)
        box, found = system, achievable(system, collective, 1, n_ranks)
        if isinstance(found, Unsupported):
            return found
        return lambda size: _banded(achievable(box, collective, size, n_ranks))
    if collective is CollectiveKind.ALLTOALL:
        return Unsupported("libraries send it point to point and have no model of it")
    library = library_of(system).tabulated(collective)
    name = str(library)

    def predicted(size: int) -> Timed:
        pick = library.pick(collective, size)
        return _banded(scaled_time(library, collective, size, pick.time_s), f"{name}: {pick}; ")

    return predicted


def _banded(found: Achievable | Unsupported, how: str = "") -> Timed:
    assert isinstance(found, Achievable), found
    return found.time_s, found.low_s, found.high_s, how + found.source


@lru_cache(maxsize=256)
def _costs(group: PricedGroup, cost_model: str | None = None) -> GroupCosts:
    from treadle.api.group_costs import group_costs  # the solvers, which few prices need

    return group_costs(group.topology, group.mesh, cost_model=cost_model)
