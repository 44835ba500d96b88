"""Costs of a message in addition to its bytes, by the class of its links and the protocol that carries it.

LogGP's parameters (Alexandrov, Ionescu, Schauser and Scheiman, "LogGP", SPAA 1995), one set for each class of
links: alpha is L with both overheads, the occupancy is g, and G is the time of a byte at the rate of data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.topologies.naming import is_one_line

MAX_COST_NS = 10**12
"""Longest latency, occupancy and launch: a quarter of an hour."""

MAX_DENOMINATOR = 10**6
"""Largest denominator of an efficiency: keeps durations integral in ticks."""

_MAX_RATE = 2**50
_MAX_CHANNELS = 4096
_MAX_PROTOCOLS = 16
_MAX_WORDS = 2000


class LinkClass(StrEnum):
    """Position of a link, spelt as in files.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.LinkClass]
    ['box', 'hop', 'network']
    """

    BOX = "box"
    """Within a box: NVLink, xGMI, PCIe."""
    HOP = "hop"
    """Between two ranks without a switch, where no box holds both."""
    NETWORK = "network"
    """Between boxes, and at switches outside boxes."""


@brief("alpha_ns", "occupancy_ns", "hop_ns", "efficiency")
@dataclass(frozen=True)
class ClassCost:
    """Costs of messages over links of a class.

    Parameters
    ----------
    alpha_ns : int
        From the last byte's arrival until the receiver continues, nanoseconds, once for a message.
    occupancy_ns : int
        Time for which a message holds its first link in addition to its bytes (g of LogP), nanoseconds.
    hop_ns : int
        Latency of each such link, added to the one that the fabric states, nanoseconds.
    efficiency : Fraction
        Share of a link's bandwidth that is left to data, more than 0, at most 1, denominator at most 10**6.

    Raises
    ------
    ScheduleError
        If a number is out of range.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.ClassCost(alpha_ns=5000, occupancy_ns=2000)
    <ClassCost alpha ns 5000, occupancy ns 2000, hop ns 0, efficiency 1>
    """

    alpha_ns: int = 0
    occupancy_ns: int = 0
    hop_ns: int = 0
    efficiency: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        for name in ("alpha_ns", "occupancy_ns", "hop_ns"):
            if not 0 <= getattr(self, name) <= MAX_COST_NS:
                raise ScheduleError(f"{name} {getattr(self, name)}, expected 0 to {MAX_COST_NS}")
        object.__setattr__(self, "efficiency", Fraction(self.efficiency))
        if not (0 < self.efficiency <= 1 and self.efficiency.denominator <= MAX_DENOMINATOR):
            raise ScheduleError(
                f"efficiency {self.efficiency}, expected more than 0, at most 1, with a denominator of at "
                f"most {MAX_DENOMINATOR}"
            )


@brief("name", "launch_ns")
@dataclass(frozen=True)
class Protocol:
    """Costs of one protocol of a library, which takes the fastest for each size.

    Parameters
    ----------
    name : str
        For example ``ll``, ``ll128`` or ``simple``.
    box, network, hop : ClassCost
    launch_ns : int
        Time before the first message of a collective, nanoseconds.
    channels : int
        Largest number of channels of a rank; 0: no limit.
    channel_bytes_per_s : int
        Rate of one channel. No message leaves its rank faster than all channels together.

    Raises
    ------
    ScheduleError
        If a number is out of range.

    Examples
    --------
    >>> from treadle import planning
    >>> simple = planning.Protocol("simple", planning.ClassCost(alpha_ns=2000), launch_ns=5000)
    >>> simple
    <Protocol simple, launch ns 5000>
    >>> simple.of(planning.LinkClass.BOX)
    <ClassCost alpha ns 2000, occupancy ns 0, hop ns 0, efficiency 1>
    """

    name: str
    box: ClassCost = ClassCost()
    network: ClassCost = ClassCost()
    hop: ClassCost = ClassCost()
    launch_ns: int = 0
    channels: int = 0
    channel_bytes_per_s: int = 0

    def __post_init__(self) -> None:
        if not (0 < len(self.name) <= 40 and is_one_line(self.name)):
            raise ScheduleError(f"protocol {self.name[:40]!r}: expected a name of 1 to 40 characters")
        if not 0 <= self.launch_ns <= MAX_COST_NS:
            raise ScheduleError(
                f"protocol {self.name}: launch_ns {self.launch_ns}, expected 0 to {MAX_COST_NS}"
            )
        if not 0 <= self.channels <= _MAX_CHANNELS or not 0 <= self.channel_bytes_per_s <= _MAX_RATE:
            raise ScheduleError(
                f"protocol {self.name}: {self.channels} channels of {self.channel_bytes_per_s} bytes/s, "
                f"expected at most {_MAX_CHANNELS} of {_MAX_RATE}"
            )
        if bool(self.channels) != bool(self.channel_bytes_per_s):
            raise ScheduleError(
                f"protocol {self.name}: channels and channel_bytes_per_s go together, found "
                f"{self.channels} and {self.channel_bytes_per_s}"
            )

    def of(self, link_class: LinkClass) -> ClassCost:
        """Return the costs of a class."""
        cost: ClassCost = getattr(self, link_class.value)
        return cost

    @property
    def ceiling_bytes_per_s(self) -> int:
        """Rate of all channels together; 0: no limit."""
        return self.channels * self.channel_bytes_per_s


@brief("name", "protocols")
@dataclass(frozen=True)
class CostModel:
    """Costs of messages on some machine or in some analysis.

    Parameters
    ----------
    name : str
    source : str
        Origin of the values.
    protocols : tuple of Protocol
        One or more, with different names. The fastest carries a collective.
    reduction_bytes_per_s : int
        Speed at which a rank adds received data to its own; 0: additions take no time.
    bands : mapping of str to pair of float
        95 % intervals of fitted values, by path, e.g. ``simple.box.alpha_ns``; empty for other values.

    Raises
    ------
    ScheduleError
        If protocols are missing, two have one name, or a number is out of range.

    Examples
    --------
    >>> from treadle import planning
    >>> simple = planning.Protocol("simple", planning.ClassCost(alpha_ns=1000))
    >>> model = planning.CostModel("mine", "measured", (simple,))
    >>> model.protocols[0].of(planning.LinkClass.BOX).alpha_ns
    1000
    """

    name: str
    source: str
    protocols: tuple[Protocol, ...]
    reduction_bytes_per_s: int = 0
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "protocols", tuple(self.protocols))
        for what, words, most in (("name", self.name, 100), ("source", self.source, _MAX_WORDS)):
            if not (0 < len(words) <= most and is_one_line(words)):
                raise ScheduleError(f"cost model: {what} {words[:40]!r}, expected a line of 1 to {most}")
        names = [protocol.name for protocol in self.protocols]
        if not 1 <= len(names) <= _MAX_PROTOCOLS or len(set(names)) < len(names):
            raise ScheduleError(
                f"cost model {self.name}: protocols {', '.join(names) or 'none'}; expected 1 to "
                f"{_MAX_PROTOCOLS} of different names"
            )
        if not 0 <= self.reduction_bytes_per_s <= _MAX_RATE:
            raise ScheduleError(
                f"cost model {self.name}: sums at {self.reduction_bytes_per_s} bytes/s, expected 0 to "
                f"{_MAX_RATE}"
            )
        object.__setattr__(self, "bands", MappingProxyType(dict(self.bands)))

    def __hash__(self) -> int:
        return hash((self.name, self.source, self.protocols, self.reduction_bytes_per_s))

    def __reduce__(self) -> tuple[type[CostModel], tuple[object, ...]]:
        # read-only mappings cannot be pickled, and workers of other processes get models
        return CostModel, (
            self.name,
            self.source,
            self.protocols,
            self.reduction_bytes_per_s,
            dict(self.bands),
        )
