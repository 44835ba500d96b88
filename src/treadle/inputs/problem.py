"""Problems: a fabric and a collective on it, from values or from strings of the user."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack, cast

from treadle.brief import brief
from treadle.checking import checked
from treadle.errors import ScheduleError, TopologyError
from treadle.inputs.demand_files import read_demands
from treadle.inputs.fabrics_and_plans import FabricLike, as_fabric
from treadle.inputs.meshes import groups_of
from treadle.options.keywords import ProblemOptions
from treadle.schedules.alltoall.demands import block_demands
from treadle.schedules.collective import Collective, CollectiveKind, busbw_factor
from treadle.spelling import known_name
from treadle.topologies import parse, subset, without_failures
from treadle.topologies.topology import Topology

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_SHORT_NAMES: Mapping[str, str] = MappingProxyType(
    {"a2a": "alltoall", "all2all": "alltoall", "bcast": "broadcast"}
)


def problem_keywords(keywords: Mapping[str, Any]) -> ProblemOptions:
    """Return those keywords that describe a problem."""
    known = ProblemOptions.__annotations__
    return cast(ProblemOptions, {name: value for name, value in keywords.items() if name in known})


@brief("collective", "topology")
@dataclass(frozen=True)
class Problem:
    """A fabric and a collective on it that match.

    Parameters
    ----------
    topology : Topology
        The fabric without absent nodes.
    collective : Collective

    Examples
    --------
    >>> from treadle import planning
    >>> planning.make_problem("ring:4", "allgather").topology.n_nodes
    4
    """

    topology: Topology
    collective: Collective


def model_of(topology: Topology, collective: Collective) -> str:
    """Return the assumption about switches or forwarding on which an optimum depends; "" if there is none.

    An allreduce depends on in-network multicast and aggregation. So do collectives in groups, which do not
    use them. An all-to-all in groups depends on the nodes that forward.

    Examples
    --------
    >>> from treadle import planning
    >>> problem = planning.make_problem("dgx_h100:1", "allreduce")
    >>> planning.model_of(problem.topology, problem.collective)
    'allreduce without in-network multicast and aggregation'
    """
    kind = collective.kind
    if kind is CollectiveKind.ALLTOALL and collective.blocks is not None:
        return "alltoall in groups, ranks of other groups forward"
    able = [name for name in ("multicast", "aggregation") if getattr(topology, name).any()]
    if collective.groups is not None and able:
        used = [name for name in able if (kind.broadcasts if name == "multicast" else kind.reduces)]
        return f"{kind} in groups, without in-network {' and '.join(used)}" if used else ""
    if kind is not CollectiveKind.ALLREDUCE:
        return ""
    if not able:
        return "allreduce without in-network multicast and aggregation"
    capable = topology.multicast | topology.aggregation
    asked = capable & ~topology.turns_round
    how = ", for ranks that ask" if asked.any() else ""
    if asked.any() and not asked[capable].all():
        how = ", by themselves or for ranks that ask"
    return f"allreduce with in-network {' and '.join(able)}{how}"


def format_exact(value: Fraction) -> str:
    """Return an exact rational for JSON: ``1040/3``, also with the denominator 1."""
    return f"{value.numerator}/{value.denominator}"


def busbw_values(key: str, algbw: Fraction, collective: Collective) -> dict[str, object]:
    """Return the busbw of nccl-tests for JSON, under keys that begin with `key`."""
    scaled = algbw * busbw_factor(collective.kind, collective.group_size)
    return {f"{key}_bytes_per_s": float(scaled), f"{key}_exact": format_exact(scaled)}


def resolve_topology(topology: FabricLike, *, file_format: str | None = None) -> Topology:
    """Return a fabric from any accepted value (`as_fabric`); FormatError or TopologyError otherwise."""
    found = as_fabric(topology)
    return found if isinstance(found, Topology) else parse(found, format=file_format)


def resolve_kind(kind: CollectiveKind | str) -> CollectiveKind:
    """Return the kind of that name in any spelling; FormatError for an unknown one.

    Examples
    --------
    >>> print(*map(resolve_kind, ("AllReduce", "reduce_scatter", "a2a")))
    allreduce reduce-scatter alltoall
    """
    if isinstance(kind, CollectiveKind):
        return kind
    name, known = str(kind), [one.value for one in CollectiveKind]
    return CollectiveKind(_SHORT_NAMES.get(name.casefold()) or known_name("collective", name, known))


@checked()
def make_problem(
    topology: FabricLike, collective: Collective | CollectiveKind | str, **options: Unpack[ProblemOptions]
) -> Problem:
    """Return the problem of a fabric and a collective.

    Parameters
    ----------
    topology : Topology, str, Path, networkx.Graph, plan or result
        A value, a catalogue expression (``dgx_a100:2``), a file, a graph, or a value with a fabric.
    collective : Collective, CollectiveKind or str
        With a Collective, all other parameters except `file_format` must be omitted.
    ranks : sequence of int, or str, optional
        Indices among the fabric's compute nodes from 0, or a string: ``0-7,16-23`` or names and patterns
        (``box0.*,box1.gpu3``). They are numbered from 0 in the order given, also for the mesh, the root,
        weights and demands. Nodes that match a pattern keep the fabric's order. Default: all.
    forward : bool
        Whether compute nodes outside `ranks` forward, with a mesh also ranks of other groups; otherwise they
        are absent.
    root : int or str, optional
        Rank (an int) or node name of the root of broadcast and reduce; default rank 0. With a mesh: the index
        in each group, or a node with that index in its group.
    weights : sequence of int, optional
        Relative shard size of each rank.
    file_format : str, optional
        Format of the file that `topology` names.
    demands : Demands, Path or str, optional
        Data of each rank for each other in an all-to-all, or a CSV or JSON file.
    without : str or sequence of str, optional
        Links (``leaf3--spine2``) and nodes that failed, patterns, several separated by commas
        (`topologies.without_failures`). Ranks are numbered among the remaining nodes.
    mesh : Mesh or str, optional
        Mesh of the ranks: ``dp=16,tp=8``, or ``16,8`` with axes 0 and 1. The last axis is the fastest.
    axes : str or sequence of str, optional
        With a mesh: the collective runs concurrently in all groups over these axes. If they form only one
        group, it is the plain collective of its ranks.

    Raises
    ------
    FormatError, TopologyError, ScheduleError
        If either is malformed or they do not match.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.make_problem("ring:4", "allgather").collective.n_ranks
    4
    """
    fabric = resolve_topology(topology, file_format=options.get("file_format"))
    if isinstance(collective, Collective):
        given = {name: value for name, value in options.items() if name != "file_format"}
        if any(value is not None and value is not False for value in given.values()):
            *names, last = [name for name in ProblemOptions.__annotations__ if name != "file_format"]
            raise ScheduleError(f"{', '.join(names)} and {last} belong to a collective's name, not its value")
        return Problem(fabric, collective)
    kind = resolve_kind(collective)
    if (without := options.get("without")) is not None:
        fabric = without_failures(fabric, without)
    ranks, forward = options.get("ranks"), options.get("forward", False)
    chosen: list[int] = fabric.compute_nodes.tolist()
    forwarders: tuple[int, ...] = ()
    if ranks is not None:
        nodes, places = chosen, select_ranks(fabric, ranks)
        chosen = [nodes[place] for place in places]
        if len(chosen) < len(nodes) and forward:
            members = frozenset(chosen)
            forwarders = tuple(node for node in nodes if node not in members)
        elif chosen != nodes and not forward and len(chosen) > 1:
            fabric = subset(fabric, *places)
            chosen = fabric.compute_nodes.tolist()
    if len(chosen) < 2:
        raise ScheduleError(f"{fabric.name}: {kind} needs at least 2 ranks, found {len(chosen)}")
    groups = groups_of(options.get("mesh"), options.get("axes"), len(chosen), fabric.name)
    if groups is not None and len(groups) == 1:  # in the order that the axes give it
        chosen, groups = [chosen[place] for place in groups[0]], None
    weights, demands = options.get("weights"), options.get("demands")
    demands = read_demands(demands) if isinstance(demands, Path | str) else demands
    if groups is not None and kind is CollectiveKind.ALLTOALL:
        if demands is not None:
            raise ScheduleError("mesh and demands: both define the data of an all-to-all; give one of them")
        demands, groups = block_demands(len(chosen), groups), None
    root = options.get("root")
    if isinstance(root, str) and not root.isdecimal():
        node = fabric.node_index(root)
        if node not in chosen:
            raise ScheduleError(f"root {root!r} is not among the ranks")
        root = chosen.index(node)
        root = next(group.index(root) for group in groups or [range(len(chosen))] if root in group)
    elif root is None and kind.is_rooted:
        root = 0
    value = Collective(
        kind,
        tuple(chosen),
        root=None if root is None else int(root),
        weights=None if weights is None else tuple(weights),
        forwarders=forwarders,
        demands=demands,
        groups=groups,
        ranks_forward=groups is not None and forward,
    )
    return Problem(fabric, value)


def make_forwarding_problem(
    topology: FabricLike, collective: Collective | CollectiveKind | str, options: ProblemOptions
) -> Problem:
    """Return a problem where all compute nodes forward."""
    if isinstance(collective, Collective):
        return make_problem(topology, replace(collective, ranks_forward=True))
    return make_problem(topology, collective, **ProblemOptions(**{**options, "forward": True}))


def select_ranks(topology: Topology, ranks: Sequence[int] | str) -> list[int]:
    """Return indices of compute nodes, in the order given; TopologyError for unknown or repeated ranks."""
    names = [topology.node_names[int(node)] for node in topology.compute_nodes]
    if not isinstance(ranks, str):
        indices = list(map(int, ranks))
    else:
        indices = [index for part in ranks.split(",") for index in _matching(topology, names, part.strip())]
    seen: set[int] = set()
    for index in indices:
        if not 0 <= index < len(names):
            raise TopologyError(f"rank {index}: {topology.name} has ranks 0 to {len(names) - 1}")
        if index in seen:
            raise TopologyError(f"rank {index} ({names[index]}) is chosen twice")
        seen.add(index)
    return indices


def _matching(topology: Topology, names: Sequence[str], part: str) -> Sequence[int]:
    """Return the indices of a range, or of the nodes that match a pattern."""
    if span := _RANGE.fullmatch(part):
        low, high = int(span[1]), int(span[2] or span[1])
        if low > high or high >= len(names):
            expected = f"expected a rising range within 0 to {len(names) - 1} of {topology.name}"
            raise TopologyError(f"ranks {part!r}: {expected}")
        return range(low, high + 1)
    found = [index for index, name in enumerate(names) if part and fnmatchcase(name, part)]
    if not found:
        raise TopologyError(f"ranks {part[:60]!r}: no compute node of {topology.name} has that name")
    return found
