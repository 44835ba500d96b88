"""Draw a fabric, or what a plan does on it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from treadle.arrays import mask_of
from treadle.drawing.plan_loads import busy_links
from treadle.drawing.tree_hops import hops_of
from treadle.errors import FormatError, ScheduleError
from treadle.input_files import is_plan_file
from treadle.inputs.fabrics_and_plans import FabricLike, PlanLike, as_fabric, as_plan
from treadle.inputs.problem import resolve_topology
from treadle.inputs.verification import require_verified
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.plan import Plan, plan_of
from treadle.schedules.trees.allreduce_certificate import DualCertificate
from treadle.spelling import counted, unknown
from treadle.topologies.topology import Topology
from treadle.units import format_bandwidth
from treadle.verification.schedules import pipelined_algbw
from treadle.viz.fabric_layout import fabric_layout
from treadle.viz.painting import Painting, by_cut, by_hop, by_load

_SHOWN = ("load", "cut", "tree:RANK")
FORMATS = ("svg", "png", "pdf")
"""Formats of drawings."""


def check_drawing_name(path: Path | str) -> None:
    """Raise FormatError unless the extension is a format of drawings.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.check_drawing_name("fabric.svg")
    """
    if Path(path).suffix[1:].lower() not in FORMATS:
        raise FormatError(f"drawing {str(path)[:200]}: expected a name that ends in .svg, .png or .pdf")


def painting_of(subject: FabricLike | PlanLike, show: str) -> Painting:
    """Return the drawing before it is written (`draw`)."""
    plan = _plan(subject)
    if plan is None:
        if show:
            raise FormatError(f"draw: {show[:40]!r} is of plans, and this is a fabric; solve it first")
        topology = resolve_topology(as_fabric(subject, "draw: subject"))
        return Painting(fabric_layout(topology), title=_fabric_words(topology))
    require_verified(plan)
    what, _, rank = show.partition(":")
    if what in ("", "load") and not rank:
        return _load(plan)
    if show == "cut":
        return _cut(plan)
    if what == "tree" and rank:
        return _tree(plan, rank)
    raise FormatError(f"draw: {unknown('thing to show', show, _SHOWN)}")


def _plan(subject: Any) -> Plan | None:
    """Return the plan that this is, has, or is the file of; None for fabrics."""
    if isinstance(subject, Topology):
        return None
    if isinstance(subject, str | Path):
        return as_plan(subject) if is_plan_file(subject) else None
    return plan_of(subject)


def _fabric_words(topology: Topology) -> str:
    switches = topology.n_nodes - len(topology.compute_nodes)
    return f"{topology.name}: {counted(len(topology.compute_nodes), 'rank')}" + (
        f", {counted(switches, 'switch')}" if switches else ""
    )


def _title(plan: Plan) -> str:
    return f"{plan.collective.kind} on {plan.topology.name}"


def _load(plan: Plan) -> Painting:
    busy, full = busy_links(plan)
    n_full = int(full.sum())
    rate = pipelined_algbw(plan.topology, plan.collective, plan.entries[-1].schedule) or plan.algbw
    words = f"{format_bandwidth(rate)} by {plan.algorithm}, verified; busy all the time: " + (
        "no link" if not n_full else f"{n_full} of {counted(len(full), 'link')}"
    )
    return by_load(
        fabric_layout(plan.topology),
        busy.tolist(),
        full.tolist(),
        title=_title(plan) + ", load",
        caption=words,
    )


def _cut(plan: Plan) -> Painting:
    found = describe_cut(plan)
    return by_cut(
        fabric_layout(plan.topology),
        found.inside.tolist(),
        found.crossing.tolist(),
        title=_title(plan) + ": bottleneck cut",
        caption=found.words,
    )


def describe_cut(plan: Plan) -> CutDescription:
    """Return the smaller side of the cut that proves the optimum, or the links that have a price.

    Raises
    ------
    ScheduleError
        If the plan claims no optimum, or something else proves it.
    """
    topology, certificate = plan.topology, plan.certificate
    if isinstance(certificate, DualCertificate):
        priced = np.array([length > 0 for length in certificate.lengths], dtype=np.bool_)
        limiting = f"{int(priced.sum())} of {counted(len(priced), 'link')}"
        words = f"{limiting} are the bottleneck: their prices prove the optimum"
        return CutDescription(np.zeros(topology.n_nodes, dtype=np.bool_), priced, words)
    if not isinstance(certificate, BottleneckCut):
        raise ScheduleError(
            "draw: no cut proves this plan's optimum"
            if certificate is not None
            else "draw: this plan claims no optimum, so that there is no cut to draw"
        )
    return smaller_side(plan, certificate)


@dataclass(frozen=True)
class CutDescription:
    """A cut described from its smaller side.

    Parameters
    ----------
    inside : array of bool, shape (nodes,)
    crossing : array of bool, shape (links,)
        What the data have to cross.
    words : str
        What has to cross, where and through how much.
    """

    inside: Any
    crossing: Any
    words: str


def smaller_side(plan: Plan, certificate: BottleneckCut) -> CutDescription:
    """Return the side with fewer ranks, and what has to enter or leave it."""
    topology, collective = plan.topology, plan.collective
    inside = mask_of(topology.n_nodes, list(certificate.nodes))
    ranks = np.array(collective.ranks)
    weights = np.array(collective.shard_weights)
    demand, total = int(weights[inside[ranks]].sum()), int(weights.sum())
    crossing = inside[topology.tails] & ~inside[topology.heads]
    if collective.kind.reduces:
        crossing = inside[topology.heads] & ~inside[topology.tails]
    is_entered = collective.kind.reduces
    if 2 * int(inside[ranks].sum()) > len(ranks):
        inside, is_entered = ~inside, not is_entered
    capacity = int(topology.bandwidths[crossing].sum())
    what = "all data" if collective.root is not None else f"{demand} of {total} shards"
    way = "enter" if is_entered else "leave"
    bound = Fraction(capacity * total, demand)
    words = (
        f"{what} must {way} {_place(topology, inside, ranks)} through {format_bandwidth(capacity)}: "
        f"at most {format_bandwidth(bound)}"
    )
    return CutDescription(inside, crossing, words)


def _place(topology: Topology, inside: Any, ranks: Any) -> str:
    names: list[str] = [topology.node_names[node] for node in ranks[inside[ranks]].tolist()]
    if len(names) == 1:
        return names[0]
    box = {name.rpartition(".")[0] for name in names}
    if len(box) == 1 and (only := box.pop()):
        whole = sum(topology.node_names[node].rpartition(".")[0] == only for node in ranks.tolist())
        return only if whole == len(names) else f"{len(names)} ranks of {only}"
    return f"{len(names)} ranks"


def _tree(plan: Plan, rank: str) -> Painting:
    root = _rank_named(plan, rank)
    hops, words = hops_of(plan, root)
    node = plan.collective.ranks[root]
    return by_hop(
        fabric_layout(plan.topology),
        hops,
        node,
        title=f"{_title(plan)}, data of {plan.topology.node_names[node]}",
        caption=words,
    )


def _rank_named(plan: Plan, text: str) -> int:
    names = [plan.topology.node_names[node] for node in plan.collective.ranks]
    if text in names:
        return names.index(text)
    if text.isascii() and text.isdigit() and len(text) < 9 and int(text) < len(names):
        return int(text)
    raise FormatError(
        f"draw: no rank {text[:40]!r}; expected a number below {len(names)} or a name such as {names[0]}"
    )
