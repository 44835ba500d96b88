"""Cost models by name, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from types import MappingProxyType

from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.topologies.topology import Topology

_BOX = ClassCost(alpha_ns=1000, occupancy_ns=50)
_NETWORK = ClassCost(alpha_ns=5000, occupancy_ns=200)

_TUNING = "NCCL 2.30, src/graph/tuning.cc (June 2026)"


@cache
def cost_presets() -> Mapping[str, CostModel]:
    """All cost models that come with Treadle, by name.

    Examples
    --------
    >>> from treadle import planning
    >>> "reference" in planning.cost_presets()
    True
    """
    # as `reference`, where direct links join network cards of hosts
    models = (
        _reference(),
        CostModel(
            "reference-hosts",
            "round figures: 1 us a message (network and direct 5 us), 1 us a hop",
            (Protocol("simple", _BOX, _NETWORK, ClassCost(alpha_ns=5000, occupancy_ns=200, hop_ns=1000)),),
        ),
        CostModel(
            "link-latencies", "the latencies that the fabric's links state, no more", (Protocol("simple"),)
        ),
        _dissertation(),
        _testbed(),
        _preprint(),
        *map(_nccl, _CHANNELS),
    )
    return MappingProxyType({model.name: model for model in models})


def default_cost_model(topology: Topology) -> CostModel:
    """What messages cost on a fabric of which nothing else is said.

    Where a fabric states the latencies of its links (those of `design` and of `calibrate` do, those of the
    catalogue with `latency=`), they are meant to be all: `link-latencies`. Where no link has one:
    `reference`.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> for fabric in ("dgx_a100:2", "ring(4, latency='10us')"):
    ...     print(planning.default_cost_model(treadle.parse(fabric)).name)
    reference
    link-latencies
    """
    return cost_presets()["link-latencies" if topology.latencies_ns.any() else "reference"]


def reference_hop_ns() -> int:
    """What a hop of a direct-connect fabric costs by `reference`, bytes aside, nanoseconds.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.reference_hop_ns()
    1550
    """
    hop = cost_presets()["reference"].protocols[0].hop
    return hop.alpha_ns + hop.occupancy_ns + hop.hop_ns


def _reference() -> CostModel:
    """Round figures for today's fabrics, the ones that this project compares schedules by."""
    hop = ClassCost(alpha_ns=1000, occupancy_ns=50, hop_ns=500)
    return CostModel(
        "reference",
        "round figures: 1 us a message (network 5 us), 0.5 us a direct hop",
        (Protocol("simple", _BOX, _NETWORK, hop),),
    )


def _dissertation() -> CostModel:
    every = ClassCost(alpha_ns=10_000)
    return CostModel(
        "dissertation",
        "Zhao, Accelerating Collective Communication for Distributed Machine Learning (2026), 3.3.2: "
        "10 us a hop, no more",
        (Protocol("simple", every, every, every),),
    )


def _testbed() -> CostModel:
    hop = ClassCost(alpha_ns=13_330, efficiency=Fraction(79, 100))
    return CostModel(
        "optical-testbed",
        "Zhao (2026), A.1.2: fitted on 5 to 12 hosts with four 25 Gbit/s links each: 13.33 us a step, "
        "21.6 us a collective, 79 of 100 Gbit/s",
        (Protocol("simple", hop, hop, hop, launch_ns=21_600),),
    )


def _preprint() -> CostModel:
    """`benchmarks/cost_fit.py` fits it."""
    box = ClassCost(5885, 4460, 0, Fraction(7499, 10_000))
    network = ClassCost(34_426, 2604, 0, Fraction(8593, 10_000))
    return CostModel(
        "preprint-a100",
        "fitted to table 3 of ForestColl's preprint (arXiv 2402.06787): 28 times of seven MSCCL and NCCL "
        "schedules on two DGX A100, 1 MB to 1 GB; mean error 9%, largest 24%",
        (Protocol("simple", box, network, network, launch_ns=20_131),),
        reduction_bytes_per_s=266_546_061_763,
    )


_RINGS = {
    "ll": (6600, 600, 2700, Fraction(1, 2)),
    "ll128": (14_000, 1900, 4000, Fraction(23, 25)),
    "simple": (8400, 3400, 14_000, Fraction(1)),
}
"""Of rings: baseLatencies, hwLatencies of NVLINK and NET, ns, and the factors of busBw."""

_CHANNELS = {
    "volta": (12, 39_000_000_000, 20_000_000_000),
    "ampere": (24, 87_700_000_000, 20_000_000_000),
    "hopper": (16, 141_000_000_000, 36_700_000_000),
    "blackwell": (16, 282_000_000_000, 40_000_000_000),
}
"""Channels that NCCL opens on a DGX of the generation, llMaxBws of one box, all channels together, and
perChMaxRingLL128Bws, one channel. The numbers of channels are from memory, of no log or file: the log of
ncclCommInit says them on a machine, and a model of one's own can hold them."""

_NET_OVERHEAD_NS = 1000
"""getNetOverhead: posting a message to the network costs the host's proxy this, thrice under Simple."""


def _nccl(generation: str) -> CostModel:
    """The figures by which NCCL chooses a protocol for rings."""
    channels, ll, ll128 = _CHANNELS[generation]
    ceilings = {"ll": (1, ll), "ll128": (channels, ll128), "simple": (0, 0)}
    protocols = []
    for name, (launch_ns, box_ns, network_ns, share) in _RINGS.items():
        posting_ns = _NET_OVERHEAD_NS * (3 if name == "simple" else 1)
        network = ClassCost(network_ns, posting_ns, 0, share)
        box = ClassCost(box_ns, 0, 0, share)
        protocols.append(Protocol(name, box, network, network, launch_ns, *ceilings[name]))
    return CostModel(
        f"nccl-{generation}",
        f"{_TUNING}: ring latencies, factors of bandwidth and ceilings for {generation.capitalize()}; the "
        "overhead of posting to the network, there added to latencies, as occupancy; numbers of "
        "channels from memory",
        tuple(protocols),
    )
