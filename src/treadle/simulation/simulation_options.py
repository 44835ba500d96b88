"""Assumptions of the simulation about the network; each can be chosen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.schedules.plan import MAX_SLICES
from treadle.simulation.costs.cost_model import Protocol

_MAX_ALPHA_NS = 10**12

LEAST_SLICE_BYTES = 4096
"""InfiniBand's largest MTU: a smaller message is one packet, so thinner slices would not pipeline further."""


class LatencyModel(StrEnum):
    """Effect of latencies, spelt as on the command line.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.LatencyModel]
    ['pipelined', 'per-message']
    """

    PIPELINED = "pipelined"
    """A latency delays its message only; the link carries the next one meanwhile."""
    PER_MESSAGE = "per-message"
    """A latency occupies the link as transmission does: every message costs alpha + bytes / bandwidth."""


class Forwarding(StrEnum):
    """Forwarding of messages by switches and forwarding nodes, spelt as on the command line.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.Forwarding]
    ['cut-through', 'store-and-forward']
    """

    CUT_THROUGH = "cut-through"
    """A message leaves while it still arrives. It never runs dry, so a link is busy for its own time only."""
    STORE_AND_FORWARD = "store-and-forward"
    """A message leaves after it has arrived."""


class Sharing(StrEnum):
    """Sharing of a link by messages, spelt as on the command line.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.Sharing]
    ['fifo', 'slice-order', 'fair']
    """

    FIFO = "fifo"
    """One after another, in the order of arrival at the link."""
    SLICE_ORDER = "slice-order"
    """One after another; of those that wait, the one of the lowest slice, then of the earliest step, goes
    first, as in a runtime that executes the entire program slice by slice."""
    FAIR = "fair"
    """Concurrently, with max-min fair rates, as fluids that flow over all links of their paths."""


@brief("slices", "alpha_ns", "costs.name", "latency_model", "forwarding", "sharing")
@dataclass(frozen=True)
class SimulationOptions:
    """Options of a simulation.

    Parameters
    ----------
    slices : int
        Equal parts of every operation of the program. Part i of an operation waits for part i of its
        dependences, so parts pipeline through the network.
    alpha_ns : int
        Software latency of every send, nanoseconds, added to the latencies of the fabric's links.
    latency_model : LatencyModel
    forwarding : Forwarding
        Has no effect under fair sharing, where messages are fluids.
    sharing : Sharing
    reduction_bytes_per_s : int
        Speed at which a rank adds received data to its own; 0: additions take no time.
    least_slice_bytes : int
        A search for a number of slices tries none that cuts a message into smaller parts. The program's own
        messages may be smaller.
    costs : Protocol, optional
        A cost model's protocol, with the costs of messages by class of link; replaces alpha.

    Raises
    ------
    ScheduleError
        If a number is out of range.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.SimulationOptions(slices=4).slices
    4
    """

    slices: int = 1
    alpha_ns: int = 0
    latency_model: LatencyModel = LatencyModel.PIPELINED
    forwarding: Forwarding = Forwarding.CUT_THROUGH
    sharing: Sharing = Sharing.SLICE_ORDER
    reduction_bytes_per_s: int = 0
    least_slice_bytes: int = LEAST_SLICE_BYTES
    costs: Protocol | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.slices <= MAX_SLICES:
            raise ScheduleError(f"simulation: {self.slices} slices, expected 1 to {MAX_SLICES}")
        if not 0 <= self.alpha_ns <= _MAX_ALPHA_NS:
            raise ScheduleError(f"simulation: alpha {self.alpha_ns} ns, expected 0 to {_MAX_ALPHA_NS}")
        if self.costs is not None and self.alpha_ns:
            raise ScheduleError(
                f"simulation: both alpha {self.alpha_ns} ns and costs of {self.costs.name}; use one of them"
            )
        if not 0 <= self.reduction_bytes_per_s < 2**63:
            raise ScheduleError(
                f"simulation: sums at {self.reduction_bytes_per_s} bytes/s, expected 0 to 2**63 - 1"
            )
        if not 1 <= self.least_slice_bytes < 2**63:
            raise ScheduleError(
                f"simulation: slices of at least {self.least_slice_bytes} bytes, expected 1 to 2**63 - 1"
            )
