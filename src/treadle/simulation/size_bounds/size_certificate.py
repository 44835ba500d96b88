"""What proves that no schedule is faster at a size: small values, from which `size_bound_check` starts anew.

docs/algorithms/size-bounds.md has the proofs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import ClassVar

from treadle.brief import brief
from treadle.schedules.certificate import Certificate


@dataclass(frozen=True)
class _Written:
    """Values that JSON has by the names of their fields."""

    kind: ClassVar[str] = ""

    def to_json(self) -> dict[str, object]:
        """Kind, if it has one, and all values; fractions in words."""
        written: dict[str, object] = {"kind": self.kind} if self.kind else {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Fraction):
                value = str(value)
            elif isinstance(value, tuple):
                value = list(value)
            elif value is not None and not isinstance(value, int):
                value = value.to_json()
            written[one.metadata.get("key", one.name)] = value
        return written


@brief("witness")
@dataclass(frozen=True)
class CrossingCertificate(_Written):
    """Data that must cross links which carry none at the beginning and at the end.

    Parameters
    ----------
    witness : Witness
        Of the most that any schedule reaches without latencies: a cut, or prices of links.
    """

    kind: ClassVar[str] = "crossing"

    witness: Certificate


@brief("source", "target")
@dataclass(frozen=True)
class PairCertificate(_Written):
    """A rank whose data another one needs, however near or far.

    Parameters
    ----------
    source, target : int
        Ranks.
    """

    kind: ClassVar[str] = "distance"

    source: int
    target: int


@brief("gap_ns", "delay_ns", "links", "copies")
@dataclass(frozen=True)
class ReachClass(_Written):
    """How messages of a kind spread at best.

    Parameters
    ----------
    gap_ns : int
        For how long a message holds the first link.
    delay_ns : int
        From then on, until the one who gets it may go on.
    links : int
        Links over which a rank may send such messages side by side.
    copies : bool
        Switches copy: one message may reach all.
    """

    gap_ns: int
    delay_ns: int
    links: int
    copies: bool = False


@brief("source", "count", "box_ranks")
@dataclass(frozen=True)
class ReachCertificate(_Written):
    """A rank whose data so many need that they must be told one by one (LogP).

    Parameters
    ----------
    source : int
        Rank.
    count : int
        How many ranks have to know in the end, the source included.
    box_ranks : int
        Most that messages within a box reach.
    near, far : ReachClass, optional
        Messages within a box, and others; None where there are none.
    """

    kind: ClassVar[str] = "reach"

    source: int
    count: int
    box_ranks: int
    near: ReachClass | None
    far: ReachClass | None


@brief("gap_ns", "delay_ns", "rates", "copies")
@dataclass(frozen=True)
class GrowthClass(_Written):
    """How messages of a kind carry what a rank knows at best.

    Parameters
    ----------
    gap_ns, delay_ns : int
        As of `ReachClass`.
    rates : tuple of int
        Bytes/s that data may have on the first links of a rank, the fastest first.
    copies : bool
        Switches copy or add: one message may be of all.
    """

    gap_ns: int
    delay_ns: int
    rates: tuple[int, ...] = field(metadata={"key": "rates_bytes_per_s"})
    copies: bool = False


@brief("box_ranks", "leaving_bytes_per_s")
@dataclass(frozen=True)
class GrowthCertificate(_Written):
    """What all ranks know together grows by messages that hold no more than their senders know, and bytes.

    Parameters
    ----------
    box_ranks : int
        Most that messages within a box reach.
    near : GrowthClass, optional
        Messages within a box; None where there are none.
    far : GrowthClass
        Others.
    leaving_bytes_per_s : int, optional
        Of all links together by which messages leave boxes; None: not counted.
    """

    kind: ClassVar[str] = "growth"

    box_ranks: int
    near: GrowthClass | None
    far: GrowthClass
    leaving_bytes_per_s: int | None

    @property
    def step_ns(self) -> int:
        """Grid on which pairs are counted: a 160th of the least delay; 0 if that is too small."""
        delays = [one.delay_ns for one in (self.near, self.far) if one is not None]
        return min(delays) // 160


@brief("source", "least_ns")
@dataclass(frozen=True)
class DirectCertificate(_Written):
    """Ranks so far from one that data take one message to each, not two.

    Parameters
    ----------
    source : int
        Rank whose messages hold its links one after another.
    least_ns : int
        The ranks are those that a single message takes so long to besides its bytes.
    """

    kind: ClassVar[str] = "direct"

    source: int
    least_ns: int


@brief("nodes")
@dataclass(frozen=True)
class GatheredCertificate(_Written):
    """Nodes whose data leave them once, after sums or before they are told to all, or more than once.

    Parameters
    ----------
    nodes : tuple of int
    """

    kind: ClassVar[str] = "gathered"

    nodes: tuple[int, ...]


@brief("worth_ns")
@dataclass(frozen=True)
class RelayedCertificate(_Written):
    """Contributions to an allreduce that come by one message or two, at what they take of links.

    Parameters
    ----------
    worth_ns : Fraction
        Price of a contribution to a byte: ns of link time.
    """

    kind: ClassVar[str] = "relayed"

    worth_ns: Fraction


SizeWitness = (
    CrossingCertificate
    | PairCertificate
    | ReachCertificate
    | GrowthCertificate
    | DirectCertificate
    | GatheredCertificate
    | RelayedCertificate
)


@brief("witness.kind", "time")
@dataclass(frozen=True)
class SizeProof:
    """One reason why no schedule is faster.

    Parameters
    ----------
    time : Fraction
        Seconds, the launch included.
    witness : SizeWitness
    """

    time: Fraction
    witness: SizeWitness


@brief("size_bytes", "time", "protocol", "reason")
@dataclass(frozen=True)
class SizeBound:
    """The least time of a size.

    Parameters
    ----------
    size_bytes : int
        The larger per-rank buffer.
    protocol : str
        Of the cost model's the one that may be fastest; empty without one.
    proofs : tuple of SizeProof
        The latest first.
    """

    size_bytes: int
    protocol: str
    proofs: tuple[SizeProof, ...]

    @property
    def time(self) -> Fraction:
        """Seconds before which no schedule can end."""
        return self.proofs[0].time

    @property
    def reason(self) -> str:
        """Kind of the witness: crossing, distance, reach, growth, direct, gathered or relayed."""
        return self.proofs[0].witness.kind

    def time_by(self, kind: str) -> Fraction | None:
        """What a kind of witness proves, seconds; None if there is no such witness."""
        return next((proof.time for proof in self.proofs if proof.witness.kind == kind), None)
