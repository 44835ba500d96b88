"""Costs of a fabric under one way of scheduling: what a simulated step asks for its communication."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from types import MappingProxyType

import numpy as np

from treadle.brief import brief
from treadle.checking import checked, left_alone
from treadle.context import Context, Progress, context, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.meshes import as_mesh
from treadle.inputs.problem import Problem, make_problem, resolve_topology
from treadle.machines.libraries import library_of
from treadle.schedulers.bound_results import CutOffGroupError
from treadle.schedulers.expectations import system_of_group
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.simulation.cost_models import CostModelLike
from treadle.spelling import known_name
from treadle.topologies.files import topology_hash
from treadle.topologies.topology import Topology
from treadle.training.costs import Traffic
from treadle.training.prices import direct_prices as direct
from treadle.training.prices.collective_prices import MEANING, LibraryPrice, Price, TimeModel
from treadle.training.prices.measured_network import UNCHANGED, NetworkEfficiency, as_network_efficiency
from treadle.training.prices.message_costs import MessageCosts, message_costs
from treadle.training.prices.schedule_prices import (
    MOST_EXCHANGED,
    baseline_price,
    exchange_price,
    optimal_price,
    planned_price,
    spread_price,
)
from treadle.training.prices.shared_links import shared_slowdowns
from treadle.unsupported import Unsupported


@dataclass(frozen=True)
class StepSchedulerRecord:
    """A way of scheduling that steps can be simulated with.

    Parameters
    ----------
    name : str
    words : str
        What it is.
    is_bound : bool
        Nothing is quicker.
    is_own_fabric : bool
        The fabric gives only the number of nodes and their bandwidth; the baseline is a fabric itself.
    """

    name: str
    words: str
    is_bound: bool = False
    is_own_fabric: bool = False


SCHEDULERS: Mapping[str, StepSchedulerRecord] = MappingProxyType(
    {
        one.name: one
        for one in (
            StepSchedulerRecord("treadle", "Treadle's schedules"),
            StepSchedulerRecord("ring", "NCCL-like rings, all-to-all spread over shortest paths"),
            StepSchedulerRecord("tree", "NCCL-like double binary trees for allreduce, rings for the rest"),
            StepSchedulerRecord("nccl", "what NCCL picks at each size, by its own model"),
            StepSchedulerRecord("rccl", "what RCCL picks at each size, by its own model"),
            StepSchedulerRecord("achievable", "what the library achieves, fitted on measured times"),
            StepSchedulerRecord("bound", "what no schedule on the fabric beats", is_bound=True),
            StepSchedulerRecord(
                "shifted-ring", "two rings, direct-connect (dissertation)", is_own_fabric=True
            ),
            StepSchedulerRecord(
                "double-binary-tree", "two binary trees, direct-connect (dissertation)", is_own_fabric=True
            ),
            StepSchedulerRecord("torus", "square torus, direct-connect (dissertation)", is_own_fabric=True),
            StepSchedulerRecord(
                "any-fabric",
                "what no fabric with as many links beats (Moore)",
                is_bound=True,
                is_own_fabric=True,
            ),
        )
    }
)
"""By name, in the order in which they are told."""


def scheduler_named(name: str) -> StepSchedulerRecord:
    """The record of that name, however it is spelt; ScheduleError for an unknown one."""
    return SCHEDULERS[known_name("schedule", name, SCHEDULERS, error=ScheduleError)]


_FORWARDING = "; --forward (forward=True) lets ranks of other groups pass data on"
_MOST_KNOWN = 4096
_Known = tuple[str, Mesh, str, MessageCosts, bool, bool, Traffic]
_KNOWN: dict[_Known, Price] = {}
"""What was asked for in this process."""
_KNOWN_SLOWDOWNS: dict[tuple[str, Mesh, bool, tuple[Traffic, ...]], tuple[float, ...]] = {}
"""The same of collectives at once, which all ways of scheduling share."""


@dataclass(frozen=True)
class PricedTraffic:
    """What was asked for in a step, and what it costs.

    Parameters
    ----------
    kind : CollectiveKind, optional
        None: sends to the next along the axis.
    axes : tuple of str
    algbw : Fraction
        Bytes/s of every group, all at once, before network efficiency.
    delay_s : float
    model : TimeModel
    """

    kind: CollectiveKind | None
    axes: tuple[str, ...]
    algbw: Fraction
    delay_s: float
    model: TimeModel


@brief("summary", "topology.name", "mesh.notation")
class FabricCosts:
    """Seconds of communication on a fabric with a mesh, by one way of scheduling (`training.costs.Costs`).

    Parameters
    ----------
    topology : Topology
    mesh : Mesh
        As many ranks as the fabric has compute nodes.
    scheduler : StepSchedulerRecord
    messages : MessageCosts
    forward : bool
        Ranks of other groups pass data on.
    simulates : bool
        Schedules of few ranks are simulated; else all are priced by alpha and rate.
    network : NetworkEfficiency
        What is reached of the modelled rates.

    Raises
    ------
    ScheduleError
        If the mesh does not fit.

    Notes
    -----
    Each price is worked out when it is first asked for and kept by the fabric's hash as long as the process
    lives; a disk would save seconds at most.

    Examples
    --------
    >>> import treadle
    >>> costs = treadle.planning.step_costs("dgx_h100:2", "fsdp=2,tp=8")
    >>> f"{costs.time_s(treadle.CollectiveKind.ALLREDUCE, ('tp',), 2**30) * 1e3:.2f} ms"
    '3.86 ms'
    """

    def __init__(
        self,
        topology: Topology,
        mesh: Mesh,
        scheduler: StepSchedulerRecord,
        *,
        messages: MessageCosts,
        forward: bool = False,
        simulates: bool = True,
        network: NetworkEfficiency = UNCHANGED,
    ) -> None:
        n = len(topology.compute_nodes)
        if mesh.n_ranks != n:
            raise ScheduleError(
                f"mesh {mesh.notation}: it lays out {mesh.n_ranks} ranks, and {topology.name} has {n}; give one "
                f"axis {n // mesh.n_ranks}x as many"
                if n % mesh.n_ranks == 0
                else f"mesh {mesh.notation}: it lays out {mesh.n_ranks} ranks, and {topology.name} has {n}"
            )
        self.topology, self.mesh, self.scheduler = topology, mesh, scheduler
        self.messages, self.forward, self.simulates, self.network = messages, forward, simulates, network
        self._asked: dict[Traffic, Price] = {}

    @property
    def summary(self) -> str:
        """Where the seconds come from; of a baseline that is a fabric itself, that fabric."""
        name = self.scheduler.name
        if name not in direct.BASELINES:
            return self.scheduler.words
        ranks = tuple(self.topology.compute_nodes.tolist())
        whole = Problem(self.topology, Collective(CollectiveKind.ALLREDUCE, ranks))
        bandwidth = direct.node_bandwidth(whole)
        if bandwidth is None:
            return self.scheduler.words
        return f"{self.scheduler.words}: {direct.baseline_fabric(name, len(ranks), bandwidth).name}"

    @property
    def is_bound(self) -> bool:
        """No schedule takes less."""
        return self.scheduler.is_bound

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: float) -> float:
        """Seconds of a collective that all groups along `axes` do at once; 0 where a group is one rank."""
        return self._seconds((kind, self._real(axes)), float(size_bytes))

    def send_s(self, axis: str, size_bytes: float) -> float:
        """Seconds until every rank has sent so many bytes to the next along `axis`."""
        return self._seconds((None, self._real((axis,))), float(size_bytes))

    def _seconds(self, traffic: Traffic, size_bytes: float) -> float:
        if not traffic[1]:
            return 0.0
        seconds = self.price(traffic).time_s(size_bytes)
        return self.network.time_s(traffic[0], size_bytes, seconds, is_bound=self.is_bound)

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[float, ...]:
        """How many times longer each takes while all of these run at once."""
        real = tuple((kind, self._real(axes)) for kind, axes in running)
        if len(real) < 2 or self.is_bound or self.scheduler.is_own_fabric:
            # alone none is slower: a bound stays one; on a baseline's own fabric there is one group only
            return (1.0,) * len(real)
        known = (self._hash, self.mesh, self.forward, real)
        if known not in _KNOWN_SLOWDOWNS:
            if len(_KNOWN_SLOWDOWNS) >= _MOST_KNOWN:
                _KNOWN_SLOWDOWNS.clear()
            with under(context().unlimited):
                problems = [self.problem(one) for one in real]
                _KNOWN_SLOWDOWNS[known] = shared_slowdowns(self.topology, problems)
        return _KNOWN_SLOWDOWNS[known]

    def price(self, traffic: Traffic) -> Price:
        """The price of a kind of collective, or of sends, along axes of at least two ranks together."""
        if traffic not in self._asked:
            self._asked[traffic] = self._price(traffic)
        return self._asked[traffic]

    @property
    def priced(self) -> tuple[PricedTraffic, ...]:
        """Whatever was asked for so far."""
        return tuple(
            PricedTraffic(kind, axes, price.algbw, price.delay_s, price.model)
            for (kind, axes), price in self._asked.items()
        )

    @property
    def model_summary(self) -> tuple[str, ...]:
        """How the times that were asked for follow from schedules or rates."""
        models = dict.fromkeys(price.model for price in self._asked.values())
        costs = "" if self.messages.model is None else f"; messages as in {self.messages.model.name}"
        return tuple(
            MEANING[model] + ("" if model in (TimeModel.LIBRARY, TimeModel.ACHIEVABLE) else costs)
            for model in models
        )

    @cached_property
    def _hash(self) -> str:
        return topology_hash(self.topology)

    def _real(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """Without axes of one rank, in the mesh's order: groups are sets."""
        return tuple(
            name
            for name, size in zip(self.mesh.axis_names, self.mesh.shape, strict=True)
            if name in axes and size > 1
        )

    def _price(self, traffic: Traffic) -> Price:
        name = self.scheduler.name
        known = (self._hash, self.mesh, name, self.messages, self.forward, self.simulates, traffic)
        if known not in _KNOWN:
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            try:
                with under(context().unlimited):  # prices are worth waiting for
                    _KNOWN[known] = self._worked_out(traffic)
            except CutOffGroupError:
                raise
            except InfeasibleError as error:
                raise InfeasibleError(f"{error}{'' if self.forward else _FORWARDING}") from error
        return _KNOWN[known]

    def problem(self, traffic: Traffic) -> Problem:
        """The collective in all its groups; sends as an all-to-all whose demands are those of neighbours."""
        kind, axes = traffic
        if kind is CollectiveKind.ALLTOALL and self.mesh.n_ranks > MOST_EXCHANGED:
            raise ScheduleError(
                f"{self.topology.name}: an all-to-all in groups of {self.mesh.n_ranks} ranks; expected at "
                f"most {MOST_EXCHANGED}, whose demands fit a matrix"
            )
        if kind is not None or self.mesh.n_ranks > MOST_EXCHANGED:
            meant = CollectiveKind.BROADCAST if kind is None else kind
            return make_problem(self.topology, meant, mesh=self.mesh, axes=axes, forward=self.forward)
        matrix = np.zeros((self.mesh.n_ranks, self.mesh.n_ranks), dtype=np.int64)
        for group in self.mesh.groups(axes):
            matrix[list(group), [*group[1:], group[0]]] = 1
        ranks = tuple(self.topology.compute_nodes.tolist())
        return Problem(self.topology, Collective(CollectiveKind.ALLTOALL, ranks, demands=Demands(matrix)))

    def _worked_out(self, traffic: Traffic) -> Price:
        problem, kind = self.problem(traffic), traffic[0]
        words = "send" if kind is None else kind.value
        context().announce(f"{self.scheduler.name}: {words} over {','.join(traffic[1])}")
        is_direct, name = direct.node_bandwidth(problem) is not None, self.scheduler.name
        if self.scheduler.is_own_fabric:
            if not is_direct or kind is None:
                raise ScheduleError(
                    f"{name}: a direct-connect fabric of its own, for one group of all ranks; expected a "
                    f"fabric without switches, with equal links, and collectives over all axes of the mesh, "
                    f"found {self.topology.name} with mesh {self.mesh.notation}"
                )
            return self.messages.quickest(problem, partial(_on_own_fabric, name, kind))
        if self.scheduler.is_bound:
            return optimal_price(problem, self.messages, TimeModel.BOUND)
        if kind is None:
            if problem.collective.kind is CollectiveKind.ALLTOALL:
                return exchange_price(problem, self.messages)
            return optimal_price(problem, self.messages, TimeModel.FARTHEST_RANK)
        if name == "treadle":
            if is_direct:
                return self.messages.quickest(problem, partial(_on_equal_links, kind))
            return planned_price(problem, self.messages, simulates=self.simulates)
        if name == "achievable" or (name in ("nccl", "rccl") and kind is not CollectiveKind.ALLTOALL):
            system = system_of_group(problem.topology, problem.collective)
            library = system if isinstance(system, Unsupported) else library_of(system)
            if isinstance(library, Unsupported) or name not in ("achievable", library.name):
                reason = library if isinstance(library, Unsupported) else "its GPUs are another vendor's"
                raise ScheduleError(f"{name}: has no model of {self.topology.name}: {reason}")
            how = TimeModel.ACHIEVABLE if name == "achievable" else TimeModel.LIBRARY
            price = LibraryPrice(library, kind, how)
            with suppress(ScheduleError):  # an all-to-all across boxes has neither model nor rows
                price.time_s(1)
                return price
        if kind is CollectiveKind.ALLTOALL:
            return spread_price(problem, self.messages)
        is_tree = name == "tree" and kind is CollectiveKind.ALLREDUCE
        algorithm = "double-binary-tree" if is_tree else "ring"
        return baseline_price(problem, algorithm, self.messages, simulates=self.simulates)


def _on_equal_links(kind: CollectiveKind, problem: Problem, alpha_ns: int) -> Price:
    """The price of Treadle's schedules on a direct-connect fabric with equal links."""
    hop_s = _hop_s(problem.topology, alpha_ns)
    if kind is CollectiveKind.ALLTOALL:
        return direct.exchange_over_all(problem.topology, hop_s)
    return direct.direct_prices(problem, _bandwidth(problem)).price(kind, hop_s)


def _on_own_fabric(name: str, kind: CollectiveKind, problem: Problem, alpha_ns: int) -> Price:
    """A baseline's price on the fabric that it is itself, with the links of the problem's."""
    n, bandwidth, hop_s = problem.topology.n_nodes, _bandwidth(problem), _hop_s(problem.topology, alpha_ns)
    if name == "any-fabric":
        return direct.limit_price(problem, bandwidth, kind, hop_s)
    if kind is CollectiveKind.ALLTOALL or name == "double-binary-tree":
        fabric = direct.baseline_fabric(name, n, bandwidth)
        if kind is CollectiveKind.ALLTOALL:
            return direct.exchange_over_all(fabric, hop_s)
        if kind is CollectiveKind.ALLREDUCE:
            return direct.BinaryTreePrice(n, Fraction(int(fabric.bandwidths[0])), hop_s)
    return direct.baseline_prices(name, n, bandwidth).price(kind, hop_s)


def _bandwidth(problem: Problem) -> Fraction:
    found = direct.node_bandwidth(problem)
    assert found is not None, "a cost model prices equal links alike"
    return found


def _hop_s(topology: Topology, alpha_ns: int) -> float:
    """Alpha and the latency of a link, all of which are alike."""
    return (alpha_ns + int(topology.latencies_ns.max(initial=0))) / 1e9


@checked(network_efficiency=left_alone)
def step_costs(
    fabric: FabricLike,
    mesh: Mesh | str,
    *,
    schedule: str = "treadle",
    alpha_s: float | None = None,
    cost_model: CostModelLike | None = None,
    forward: bool = False,
    simulates: bool = True,
    network_efficiency: NetworkEfficiency | float | str | None = None,
    file_format: str | None = None,
    progress: Progress | None = None,
) -> FabricCosts:
    """What collectives cost in all groups of a mesh at once, by one way of scheduling.

    Parameters
    ----------
    fabric : Topology, str, Path, networkx.Graph, plan or result
    mesh : Mesh or str
        ``fsdp=16,tp=8``; as many ranks as the fabric has compute nodes.
    schedule : str
        ``treadle``, ``ring``, ``tree`` (NCCL-like), ``nccl`` or ``rccl`` (by their own models),
        ``achievable`` (fitted on measurements), ``bound``; on direct-connect fabrics also the baselines
        ``shifted-ring``, ``double-binary-tree``, ``torus``, and ``any-fabric``, which no fabric of as many
        nodes and links beats.
    alpha_s : float, optional
        Latency of every message, in place of a cost model.
    cost_model : CostModel, str or Path, optional
        What messages cost by class of link and protocol, in place of alpha: a value, a name or a file.
    forward : bool
        Ranks of other groups pass data on.
    simulates : bool
        Schedules of at most 64 ranks are simulated message by message; else all times are alpha-beta.
    network_efficiency : NetworkEfficiency, float or str, optional
        A share of all rates, or ``KIND=FILE`` with times that nccl-tests measured.
    file_format : str, optional
        Of the file that `fabric` names.
    progress : callable, optional

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError, when a time is asked for, if ranks of a group do not reach each
        other.

    Examples
    --------
    >>> import treadle
    >>> costs = treadle.planning.step_costs("dgx_h100:2", "fsdp=2,tp=8")
    >>> f"{costs.time_s(treadle.CollectiveKind.ALLGATHER, ('fsdp',), 2**30) * 1e3:.2f} ms"
    '10.74 ms'
    """
    topology = resolve_topology(fabric, file_format=file_format)
    with under(Context(progress)):
        return FabricCosts(
            topology,
            as_mesh(mesh),
            scheduler_named(schedule),
            messages=message_costs(topology, alpha_s=alpha_s, cost_model=cost_model),
            forward=forward,
            simulates=simulates,
            network=as_network_efficiency(network_efficiency),
        )
