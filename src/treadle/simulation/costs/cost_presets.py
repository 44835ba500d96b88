"""Cost models by name, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import MappingProxyType

from treadle.machines.nccl import RING_SHARES, VERSION, ChannelGraph, nccl_model, post_us, ring_us
from treadle.machines.system import Generation, System
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.topologies.topology import Topology

_BOX = ClassCost(alpha_ns=1000, occupancy_ns=50)
_NETWORK = ClassCost(alpha_ns=5000, occupancy_ns=200)


@cache
def cost_presets() -> Mapping[str, CostModel]:
    """Return the cost models that come with Treadle, by name.

    Examples
    --------
    >>> from treadle import planning
    >>> "reference" in planning.cost_presets()
    True
    """
    direct, every = ClassCost(alpha_ns=1000, occupancy_ns=50, hop_ns=500), ClassCost(alpha_ns=10_000)
    optical = ClassCost(alpha_ns=13_330, efficiency=Fraction(79, 100))
    a100_box = ClassCost(5885, 4460, 0, Fraction(7499, 10_000))
    a100_network = ClassCost(34_426, 2604, 0, Fraction(8593, 10_000))
    models = (
        CostModel(
            "reference",
            "round figures: 1 us a message (network 5 us), 0.5 us a direct hop",
            (Protocol("simple", _BOX, _NETWORK, direct),),
        ),
        # for fabrics whose direct links join network cards of hosts
        CostModel(
            "reference-hosts",
            "round figures: 1 us a message (network and direct 5 us), 1 us a hop",
            (Protocol("simple", _BOX, _NETWORK, ClassCost(alpha_ns=5000, occupancy_ns=200, hop_ns=1000)),),
        ),
        CostModel(
            "link-latencies", "the latencies that the fabric's links state, no more", (Protocol("simple"),)
        ),
        CostModel(
            "dissertation",
            "Zhao, Accelerating Collective Communication for Distributed Machine Learning (2026), 3.3.2: "
            "10 us a hop, no more",
            (Protocol("simple", every, every, every),),
        ),
        CostModel(
            "optical-testbed",
            "Zhao (2026), A.1.2: fitted on 5 to 12 hosts with four 25 Gbit/s links each: 13.33 us a step, "
            "21.6 us a collective, 79 of 100 Gbit/s",
            (Protocol("simple", optical, optical, optical, launch_ns=21_600),),
        ),
        # fitted by benchmarks/cost_fit.py
        CostModel(
            "preprint-a100",
            "fitted to table 3 of ForestColl's preprint (arXiv 2402.06787): 28 times of seven MSCCL and NCCL "
            "schedules on two DGX A100, 1 MB to 1 GB; mean error 9%, largest 24%",
            (Protocol("simple", a100_box, a100_network, a100_network, launch_ns=20_131),),
            reduction_bytes_per_s=266_546_061_763,
        ),
        *(_nccl(generation, boxes) for boxes in (1, 2) for generation in _MACHINES),
        *(_kernels(generation) for generation in _KERNELS),
    )
    return MappingProxyType({model.name: model for model in models})


def default_cost_model(topology: Topology) -> CostModel:
    """Return the cost model of a fabric for which none is given.

    If the fabric states latencies of links (those of `design` and of `calibrate` do, those of the catalogue
    with `latency=`), these are complete: `link-latencies`. If no link has a latency: `reference`.

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
    """Return the cost of a hop of a direct-connect fabric under `reference`, without bytes, nanoseconds.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.reference_hop_ns()
    1550
    """
    hop = cost_presets()["reference"].protocols[0].hop
    return hop.alpha_ns + hop.occupancy_ns + hop.hop_ns


_LAUNCH_NS = (1433, 0, 2551)
"""Launch of a kernel in a captured graph, with its 95% interval: kernels of one and two steps on H200."""
_KERNELS = {
    Generation.AMPERE: {"simple": ((3596, 3475, 3737), (120, 90, 156), (562, 530, 594), "2.7% (7.6%)")},
    Generation.HOPPER: {
        "ll": ((1244, 1203, 1303), (94, 70, 116), (713, 615, 737), "1.8% (6.9%)"),
        "simple": ((2945, 1814, 5181), (58, 45, 85), (645, 602, 723), "1.9% (8.4%)"),
    },
    Generation.BLACKWELL: {
        "ll": ((3264, 3157, 3386), (104, 76, 138), (829, 778, 1000), "2.8% (5.9%)"),
        "simple": ((5471, 5268, 5621), (53, 14, 95), (410, 184, 486), "2.6% (7.5%)"),
    },
}
"""Alpha, occupancy (ns), efficiency (per mille), each with its interval; errors (`serving_kernels.py`)."""


def _kernels(generation: Generation) -> CostModel:
    """Return the costs of one kernel that reads from all GPUs of a box, like small plans on devices."""
    protocols, errors = [], []
    bands: dict[str, tuple[float, float]] = {}
    for name, (alpha, occupancy, share, error) in _KERNELS[generation].items():
        box = ClassCost(alpha[0], occupancy[0], 0, Fraction(share[0], 1000))
        protocols.append(Protocol(name, box, _NETWORK, box, _LAUNCH_NS[0]))
        bands[f"{name}.launch_ns"] = _LAUNCH_NS[1:]
        bands[f"{name}.box.alpha_ns"], bands[f"{name}.box.occupancy_ns"] = alpha[1:], occupancy[1:]
        bands[f"{name}.box.efficiency"] = (share[1] / 1000, share[2] / 1000)
        errors.append(f"{name} {error}")
    return CostModel(
        f"kernels-{generation}",
        "fitted to allreduces of serving engines (TensorRT-LLM: ll without flags; vLLM, SGLang: simple; rows "
        f"of ai-dynamo/aiconfigurator), 2 to 8 {generation.capitalize()} GPUs of a box, 1 KB to 1 MB; median "
        f"error and 90th percentile on sizes left out: {', '.join(errors)}; network: round figures",
        tuple(protocols),
        bands=bands,
    )


_MACHINES = {
    Generation.VOLTA: (150, 8, 12.5),
    Generation.AMPERE: (300, 8, 25),
    Generation.HOPPER: (450, 8, 50),
    Generation.BLACKWELL: (900, 8, 50),
}
"""A DGX of each generation: GB/s of NVLink per GPU, NICs, and GB/s of each."""


def _nccl(generation: Generation, boxes: int) -> CostModel:
    """Return NCCL's costs of rings on a DGX of a generation, in one box or across two."""
    nvlink, nics, nic = _MACHINES[generation]
    cpu = "amd" if generation is Generation.AMPERE else "intel"
    nic_bytes_per_s = int(nic * 10**9)
    system = System(generation, 2, 8, nvlink * 10**9, nics=nics, nic_bytes_per_s=nic_bytes_per_s, cpu=cpu)
    one_box, across = nccl_model(replace(system, boxes=1)), nccl_model(system)
    model, protocols = one_box if boxes == 1 else across, []
    for name, share in RING_SHARES.items():
        launch_us, box_us, _, network_us = ring_us(name)
        box = ClassCost(_ns(box_us), 0, 0, _share(one_box.graph, share / nvlink))
        posting_ns = _ns(post_us(system, name))
        network = ClassCost(_ns(network_us), posting_ns, 0, _share(across.graph, share / (nics * nic)))
        channels, most = model.ring_cap(name)
        ceiling = (channels, round(most * 10**9))
        protocols.append(Protocol(name.lower(), box, network, network, _ns(launch_us), *ceiling))
    where = "one box" if boxes == 1 else "two boxes and more"
    return CostModel(
        f"nccl-{generation}" + ("-boxes" if boxes > 1 else ""),
        f"NCCL {VERSION}, src/graph/tuning.cc: rings on a DGX of {generation.capitalize()} GPUs, {where}, "
        f"{model.graph}",
        tuple(protocols),
    )


def _share(graph: ChannelGraph, of_rate: float) -> Fraction:
    return Fraction(graph.channels * graph.intra * of_rate).limit_denominator(1000)


def _ns(microseconds: float) -> int:
    return round(1000 * microseconds)
