"""The collective of a plan as its manifest has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.errors import FormatError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.plan_files.budget import MemoryBudget, pair_bytes
from treadle.schedules.plan_files.manifest_values import (
    read_list,
    read_object,
    read_optional,
    read_string,
    read_whole,
    read_wholes,
)
from treadle.schedules.plan_files.members import MemberReader
from treadle.topologies.topology import Topology

DEMANDS_MEMBER = "demands.npy"


def collective_values(collective: Collective) -> dict[str, object]:
    """What `read_collective` reads; keys that few collectives need are there only where they are needed."""
    values: dict[str, object] = {
        "kind": collective.kind.value,
        "ranks": list(collective.ranks),
        "root": collective.root,
        "weights": None if collective.weights is None else list(collective.weights),
        "forwarders": list(collective.forwarders),
    }
    if collective.groups is not None:
        values["groups"] = [list(group) for group in collective.groups]
        values["ranks_forward"] = collective.ranks_forward
    if collective.demands is not None:
        values["demands"] = DEMANDS_MEMBER
    return values


def read_collective(
    value: Any, members: MemberReader, topology: Topology, budget: MemoryBudget
) -> Collective:
    """The collective; FormatError or ScheduleError if it is none on that fabric.

    Parameters
    ----------
    value : Any
        Of the manifest.
    members : MemberReader
        Where its demands are, if it has some.
    topology : Topology
    budget : MemoryBudget
        Charged for tables of pairs.
    """
    keys = {"kind", "ranks", "root", "weights", "forwarders"}
    fields = read_object(value, "collective", keys, {"demands", "groups", "ranks_forward"})
    kind = read_string(fields["kind"], "collective.kind")
    if kind not in set(CollectiveKind):
        raise FormatError(f"collective.kind: {kind[:100]!r}, expected one of {', '.join(CollectiveKind)}")
    ranks = read_wholes(fields["ranks"], "collective.ranks")
    forwarders = read_wholes(fields["forwarders"], "collective.forwarders")
    if len(ranks) + len(forwarders) > topology.n_nodes:
        raise FormatError(
            f"collective: {len(ranks)} ranks and {len(forwarders)} forwarders, the fabric has "
            f"{topology.n_nodes} nodes"
        )
    if kind == CollectiveKind.ALLTOALL:
        budget.charge(pair_bytes(len(ranks)))
    demands = None
    if "demands" in fields:
        if fields["demands"] != DEMANDS_MEMBER:
            raise FormatError(f"collective.demands: expected {DEMANDS_MEMBER!r}")
        demands = Demands(members.array(DEMANDS_MEMBER, np.int64, n_dimensions=2, most=len(ranks) ** 2))
    groups, ranks_forward = None, False
    if ("groups" in fields) != ("ranks_forward" in fields):
        raise FormatError("collective: groups and ranks_forward stand together or not at all")
    if "groups" in fields:
        ranks_forward = fields["ranks_forward"]
        if type(ranks_forward) is not bool:
            raise FormatError("collective.ranks_forward: expected true or false")
        listed = read_list(fields["groups"], "collective.groups")
        groups = tuple(read_wholes(group, "collective.groups") for group in listed)
    return Collective(
        CollectiveKind(kind),
        ranks,
        root=read_optional(fields["root"], read_whole, "collective.root"),
        weights=read_optional(fields["weights"], read_wholes, "collective.weights"),
        forwarders=forwarders,
        demands=demands,
        groups=groups,
        ranks_forward=ranks_forward,
    )
