"""Protocol, blocks, threads and slices of a launch by its size, from a cost model's values.

A launch of d messages in a row, whose busiest rank sends m bytes, takes about the model's launch, d times its
latency, and m at the rate of blocks and links; slices of s bytes add d - 1 slices to fill the chain and a
flag each. No value of blocks was ever measured on a GPU: these are estimates to choose by.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from treadle.arrays import sums_of
from treadle.errors import ScheduleError
from treadle.formats.selection.block_rate import BLOCK_BYTES_PER_S
from treadle.program.program import Program
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.sized_blocks import SLICE_BYTES, STAGING_BYTES
from treadle.topologies.topology import Topology

_LANES = (1, 2, 4, 8, 16)
_MOST_THREADS, _WARP = 512, 32
_SLICES = tuple(2**power for power in range(12, 20))
UNSAID_RATE, _LEAST_RATE = 450_000_000_000, 10**6
_FLAG_NS = 1000
"""A flag's way, a round figure."""
_LANE_NS = 100
"""A block's part in starting and ending a launch, a round number: with it a few bytes get one block."""


@dataclass(frozen=True)
class ProtocolCosts:
    """Cost of messages by a protocol within a box, from a cost model.

    Parameters
    ----------
    launch_ns : int
        Of a collective.
    alpha_ns, occupancy_ns : int
        Of a message.
    efficiency : float
        Share of a link's bandwidth that is left to data.
    lane_bytes_per_s, most_bytes_per_s : int
        Of a block, and of all; 0: unknown.
    """

    launch_ns: int
    alpha_ns: int
    occupancy_ns: int
    efficiency: float
    lane_bytes_per_s: int = 0
    most_bytes_per_s: int = 0


@dataclass(frozen=True)
class BlockCosts:
    """Costs of the protocols that a model knows.

    Parameters
    ----------
    model : str
        Its name.
    """

    model: str
    protocols: Mapping[DeviceProtocol, ProtocolCosts]


@dataclass(frozen=True)
class BlockSizes:
    """Size-independent costs of a program.

    Parameters
    ----------
    depth : int
        Most messages in a row.
    sent : float
        By the busiest rank, in buffers.
    largest : float
        Message, in buffers.
    received : float
        By the busiest rank through staging, in buffers.
    parts : int
        Parts of the busiest rank: no more blocks have work.
    """

    depth: int
    sent: float
    largest: float
    received: float
    parts: int


@dataclass(frozen=True)
class BlockChoice:
    """Settings of a launch.

    Parameters
    ----------
    lanes : int
        Most blocks of a rank.
    threads : int
        Of a block.
    time_s : float
        Estimated.
    """

    protocol: DeviceProtocol
    lanes: int
    threads: int
    slice_bytes: int
    time_s: float


@dataclass(frozen=True)
class BlockLimits:
    """Given settings, and limits of the fabric and the GPU; None: not given.

    Parameters
    ----------
    protocols : sequence of DeviceProtocol
        To choose from.
    most_lanes : int, optional
        Blocks that fit on a GPU.
    """

    protocols: Sequence[DeviceProtocol] = tuple(DeviceProtocol)
    lanes: int | None = None
    threads: int | None = None
    slice_bytes: int | None = None
    most_lanes: int | None = None


def leaving_rate(topology: Topology) -> int:
    """Bytes per second that links carry out of a rank, of the rank with the least.

    Graphs of the catalogue have links of 1: those stand for what leaves an H100 by NVLink.
    """
    leaving = topology.is_compute[topology.tails]
    rates = sums_of(topology.n_nodes, topology.tails[leaving], topology.bandwidths[leaving])
    least = int(min(rates[rates > 0].tolist(), default=0))
    return least if least >= _LEAST_RATE else UNSAID_RATE


def sizes_of(program: Program) -> BlockSizes:
    """Size-independent costs of a program; takes as long as its lowering."""
    lanes = lower_to_blocks(program, DeviceProtocol.LL, lanes=1)
    share = [(past - first) / max(1, program.n_addresses) for first, past in pairwise(lanes.bounds)]
    sent: dict[int, float] = defaultdict(float)
    received: dict[int, float] = defaultdict(float)
    for message in lanes.messages:
        sent[message.sender] += share[message.part]
        received[message.receiver] += share[message.part]
    parts = [{one.part for one in lane.operations} for lane in lanes.lanes]
    return BlockSizes(
        depth=max((one.stage for lane in lanes.lanes for one in lane.operations), default=0),
        sent=max(sent.values(), default=0.0),
        largest=max((share[message.part] for message in lanes.messages), default=0.0),
        received=max(received.values(), default=0.0),
        parts=max(map(len, parts), default=1),
    )


def choose_blocks(
    figures: BlockSizes,
    size_bytes: int,
    costs: BlockCosts,
    *,
    rate_bytes_per_s: float = UNSAID_RATE,
    limits: BlockLimits | None = None,
) -> BlockChoice:
    """The launch that is estimated to be quickest.

    Parameters
    ----------
    size_bytes : int
        The larger per-rank buffer.
    rate_bytes_per_s : float
        What links carry out of a rank.

    Raises
    ------
    ScheduleError
        If the costs of the given protocol are unknown.
    """
    limits = BlockLimits() if limits is None else limits
    found = list(_candidates(figures, size_bytes, rate_bytes_per_s, costs, limits))
    if not found:
        asked = ", ".join(one.value for one in limits.protocols)
        raise ScheduleError(
            f"protocol {asked} by cost model {costs.model}: it has no values for that protocol"
        )
    return min(found, key=lambda one: (one.time_s, one.lanes, -one.slice_bytes))


def unchosen_blocks(limits: BlockLimits) -> BlockChoice:
    """Return the given settings, and the maximum of the rest, if costs are unknown."""
    return BlockChoice(
        limits.protocols[0],
        limits.lanes or _LANES[-1],
        limits.threads or _MOST_THREADS,
        limits.slice_bytes or SLICE_BYTES,
        0.0,
    )


def _candidates(
    figures: BlockSizes, size_bytes: int, rate: float, model: BlockCosts, limits: BlockLimits
) -> Iterator[BlockChoice]:
    most, message = limits.most_lanes or _LANES[-1], figures.largest * size_bytes
    tried = [one for one in _LANES if one <= max(1, min(figures.parts, most))]
    if limits.lanes is not None:
        tried = [limits.lanes if limits.most_lanes is None else min(limits.lanes, most)]
    for protocol in limits.protocols:
        costs = model.protocols.get(protocol)
        is_ll = protocol is DeviceProtocol.LL
        # two bytes of lines for one, and launches take the halves of staging in turns
        staged = 4 * figures.received * size_bytes if is_ll else 0
        is_given = len(limits.protocols) == 1
        if costs is None or (not is_given and staged > STAGING_BYTES[protocol] // 2):
            continue
        slices = (SLICE_BYTES,) if is_ll else _SLICES
        for lanes, slice_bytes in product(tried, [limits.slice_bytes] if limits.slice_bytes else slices):
            time_s = _time(figures, size_bytes, rate, costs, lanes, None if is_ll else slice_bytes)
            # as many as have a vector each of what is moved at once, in whole warps
            vectors = int(message) // 8 if is_ll else int(min(message, slice_bytes)) // 16
            warps = max(_WARP, min(_MOST_THREADS, -(-vectors // _WARP) * _WARP))
            yield BlockChoice(protocol, lanes, limits.threads or warps, slice_bytes, time_s)


def _time(
    figures: BlockSizes,
    size_bytes: int,
    rate: float,
    costs: ProtocolCosts,
    lanes: int,
    slice_bytes: int | None,
) -> float:
    lane_rate = costs.lane_bytes_per_s or BLOCK_BYTES_PER_S
    carried = min(rate * costs.efficiency, lanes * lane_rate, costs.most_bytes_per_s or rate)
    message = figures.largest * size_bytes
    n_slices = 1 if slice_bytes is None else max(1, -(-int(message) // slice_bytes))
    fill = max(0, figures.depth - 1) * message / n_slices / min(lane_rate, carried)
    flags = 0 if slice_bytes is None else n_slices + figures.depth
    waited_ns = figures.depth * costs.alpha_ns + flags * (costs.occupancy_ns + _FLAG_NS) + lanes * _LANE_NS
    return (costs.launch_ns + waited_ns) / 1e9 + figures.sent * size_bytes / carried + fill
