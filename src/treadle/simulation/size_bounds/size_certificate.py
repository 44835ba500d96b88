"""Certificates of lower bounds on the time at a size: small values from which `size_bound_check` proves them.

docs/proofs/size-bounds.md has the proofs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import ClassVar

from treadle.brief import brief
from treadle.schedules.certificate import Certificate


@dataclass(frozen=True)
class _Written:
    """Values whose JSON has the names of their fields."""

    kind: ClassVar[str] = ""

    def to_json(self) -> dict[str, object]:
        """Return the kind, if there is one, and all values; fractions as strings."""
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


@brief("certificate")
@dataclass(frozen=True)
class CrossingCertificate(_Written):
    """Data that must cross links which carry none of it at the beginning and at the end.

    Its value is the certificate of an upper bound on algbw: a cut, or dual prices.
    """

    kind: ClassVar[str] = "crossing"

    certificate: Certificate = field(metadata={"key": "witness"})


@brief("source", "target")
@dataclass(frozen=True)
class PairCertificate(_Written):
    """A rank that needs another one's data, at some distance.

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
    """Smallest costs of the messages of a kind, where the data of one rank is followed.

    Parameters
    ----------
    gap_ns : int
        Time for which a message holds its first link.
    delay_ns : int
        Time from then until its receiver may continue.
    links : int
        Links over which a rank may send such messages side by side.
    copies : bool
        One message may reach all ranks, by multicast.
    """

    gap_ns: int
    delay_ns: int
    links: int
    copies: bool = False


@brief("source", "count", "box_ranks")
@dataclass(frozen=True)
class ReachCertificate(_Written):
    """A rank whose data many ranks need, which takes rounds of messages (LogP).

    Parameters
    ----------
    source : int
        Rank.
    count : int
        Number of ranks that have the data in the end, the source included.
    box_ranks : int
        Largest number of ranks that messages within a box reach.
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
    """Smallest costs of the messages of a kind, where the data of all ranks is counted.

    Parameters
    ----------
    gap_ns, delay_ns : int
        See `ReachClass`.
    rates : tuple of int
        Rates of data on the first links of a rank, bytes/s, the fastest first.
    copies : bool
        One message may hold data of all ranks, by multicast or aggregation.
    """

    gap_ns: int
    delay_ns: int
    rates: tuple[int, ...] = field(metadata={"key": "rates_bytes_per_s"})
    copies: bool = False


@brief("box_ranks", "leaving_bytes_per_s")
@dataclass(frozen=True)
class GrowthCertificate(_Written):
    """Growth of the data that all ranks have: a message adds no more than its sender has, and its bytes hold.

    Parameters
    ----------
    box_ranks : int
        Largest number of ranks that messages within a box reach.
    near : GrowthClass, optional
        Messages within a box; None where there are none.
    far : GrowthClass
        Other messages.
    leaving_bytes_per_s : int, optional
        Total rate of the links by which messages leave boxes; None if it is not counted.
    """

    kind: ClassVar[str] = "growth"

    box_ranks: int
    near: GrowthClass | None
    far: GrowthClass
    leaving_bytes_per_s: int | None

    @property
    def step_ns(self) -> int:
        """Grid on which pairs are counted: a 160th of the smallest delay; 0 if that is too small."""
        delays = [one.delay_ns for one in (self.near, self.far) if one is not None]
        return min(delays) // 160


@brief("source", "least_ns")
@dataclass(frozen=True)
class DirectCertificate(_Written):
    """Ranks so far from one that its data takes one message to each, not two.

    Parameters
    ----------
    source : int
        Rank whose messages hold its links one after another.
    least_ns : int
        The ranks are those that a single message takes at least this time to reach, without its bytes.
    """

    kind: ClassVar[str] = "direct"

    source: int
    least_ns: int


@brief("nodes")
@dataclass(frozen=True)
class GatheredCertificate(_Written):
    """Nodes whose data leaves them once, summed before or passed on after, or more than once."""

    kind: ClassVar[str] = "gathered"

    nodes: tuple[int, ...]


@brief("worth_ns")
@dataclass(frozen=True)
class RelayedCertificate(_Written):
    """Contributions to an allreduce that come by one message or two, at the link time that these take.

    Parameters
    ----------
    worth_ns : Fraction
        Price of a contribution to a byte: ns of link time.
    """

    kind: ClassVar[str] = "relayed"

    worth_ns: Fraction


SizeCertificate = (
    CrossingCertificate
    | PairCertificate
    | ReachCertificate
    | GrowthCertificate
    | DirectCertificate
    | GatheredCertificate
    | RelayedCertificate
)


@brief("certificate.kind", "time")
@dataclass(frozen=True)
class SizeProof:
    """A time that no schedule beats, in seconds with the launch, and its certificate."""

    time: Fraction
    certificate: SizeCertificate


@brief("size_bytes", "time", "protocol", "reason")
@dataclass(frozen=True)
class SizeBound:
    """The time lower bound of a size.

    Parameters
    ----------
    size_bytes : int
        The larger per-rank buffer.
    protocol : str
        Protocol of the cost model that may be the fastest; empty without a model.
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
        """Kind of the certificate: crossing, distance, reach, growth, direct, gathered or relayed."""
        return self.proofs[0].certificate.kind

    def time_by(self, kind: str) -> Fraction | None:
        """Return the time that a kind of certificate proves, seconds; None without such a certificate."""
        return next((proof.time for proof in self.proofs if proof.certificate.kind == kind), None)
