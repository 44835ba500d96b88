"""Certificates of optimality: small values from which the verifier recomputes a bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Protocol

import numpy as np

from treadle.arrays import exact_sum, mask_of
from treadle.brief import brief
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate, DualCertificate
from treadle.topologies.topology import Topology


class Certificate(Protocol):
    """Interface of certificates; register the reader of a new kind in `CERTIFICATE_READERS`."""

    kind: ClassVar[str]

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """Return the upper bound on algbw, bytes/s, that it proves; ScheduleError if it proves none."""

    def to_json(self) -> dict[str, object]:
        """Return a JSON object whose ``kind`` names the reader; exact rationals are strings ``p/q``."""


@brief("nodes")
@dataclass(frozen=True)
class BottleneckCut:
    """Bottleneck cut: a set S of nodes without some rank.

    Parameters
    ----------
    nodes : tuple of int
        Node indices of S, rising.

    Notes
    -----
    Allgather and broadcast: shards of total weight w(S) must leave S, so with W the weight of all shards
    algbw <= W * B+(S) / w(S). Reduce-scatter and reduce: partial results must enter S, so B-(S) replaces
    B+(S). Source: optimality (*) of section 4.4 of the dissertation, with weights.
    """

    kind: ClassVar[str] = "cut"

    nodes: tuple[int, ...]

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """Return the upper bound on algbw, bytes/s, that the cut proves; ScheduleError if it proves none."""
        if collective.kind is CollectiveKind.ALLREDUCE:
            raise ScheduleError("a single cut is not a certificate for an allreduce")
        if self.nodes and not 0 <= min(self.nodes) <= max(self.nodes) < topology.n_nodes:
            raise ScheduleError(f"the cut names a node beyond the {topology.n_nodes} of {topology.name}")
        inside = mask_of(topology.n_nodes, list(self.nodes))
        is_inside = inside[np.array(collective.ranks)]
        if is_inside.all():
            raise ScheduleError("the cut contains every rank, so nothing has to cross it")
        weights = np.array(collective.shard_weights)
        demand = int(weights[is_inside].sum())
        if not demand:
            raise ScheduleError("the cut contains no data, so nothing has to cross it")
        ends = (topology.tails, topology.heads)
        near, far = reversed(ends) if collective.kind.reduces else ends
        capacity = exact_sum(topology.bandwidths[inside[near] & ~inside[far]])
        return Fraction(capacity * int(weights.sum()), demand)

    def to_json(self) -> dict[str, object]:
        """Return kind and node indices."""
        return {"kind": self.kind, "nodes": list(self.nodes)}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> BottleneckCut:
        """Read what `to_json` wrote; FormatError if it is anything else."""
        nodes = value.get("nodes")
        if set(value) != {"kind", "nodes"} or not isinstance(nodes, list):
            raise FormatError("bottleneck cut: expected the keys kind and nodes, a list")
        if nodes and (set(map(type, nodes)) != {int} or not 0 <= min(nodes) <= max(nodes) < 2**31):
            raise FormatError("bottleneck cut: nodes must be node indices")
        if np.any(np.diff(np.array(nodes, dtype=np.int64)) <= 0):
            raise FormatError("bottleneck cut: nodes must rise")
        return cls(tuple(nodes))


def binds_forwarding_hosts(certificate: Certificate | None) -> bool:
    """Return whether a bound counts data that hosts forward, and so is invalid if network cards forward."""
    return isinstance(certificate, FlowDualCertificate) and certificate.binds_forwarding_hosts


CERTIFICATE_READERS: Mapping[str, Callable[[Mapping[str, object]], Certificate]] = MappingProxyType(
    {
        BottleneckCut.kind: BottleneckCut.from_json,
        DualCertificate.kind: DualCertificate.from_json,
        CutCombinationCertificate.kind: CutCombinationCertificate.from_json,
        FlowDualCertificate.kind: FlowDualCertificate.from_json,
        GroupDualCertificate.kind: GroupDualCertificate.from_json,
    }
)
"""Reader of the JSON object of each kind of certificate."""


def certificate_from_json(value: object) -> Certificate:
    """Read a certificate from a JSON object (`Certificate.to_json`); FormatError if it is malformed."""
    if not isinstance(value, Mapping):
        raise FormatError("certificate: expected an object")
    kind = value.get("kind")
    reader = CERTIFICATE_READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise FormatError(
            f"certificate: kind {repr(kind)[:40]}, expected one of {', '.join(CERTIFICATE_READERS)}"
        )
    return reader(value)
