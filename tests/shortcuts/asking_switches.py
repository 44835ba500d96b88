"""Boxes whose switches copy and add up for ranks that ask, and allreduces in which they do."""

from __future__ import annotations

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.sizes.factor_allreduce import factor_allreduce
from treadle.synthesis.steps.gpu_initiated import use_in_network
from treadle.topologies.topology import Topology, TopologyBuilder


def asking_boxes(n_boxes: int, size: int) -> Topology:
    """GPUs of each box on a switch that works for them, all of them on a slower plain one."""
    builder = TopologyBuilder(f"asking_boxes({n_boxes}, {size})")
    network = builder.switch("network")
    for box in range(n_boxes):
        switch = builder.switch(f"box{box}", multicast=True, aggregation=True)
        for place in range(size):
            gpu = builder.compute(f"box{box}.gpu{place}")
            builder.duplex(gpu, switch, 120)
            builder.duplex(gpu, network, 10)
    return builder.build()


def asked(fabric: Topology, **options: object) -> StepSchedule:
    """An allreduce factor by factor whose switches do what they can."""
    collective = on_all_ranks(fabric, CollectiveKind.ALLREDUCE)
    return use_in_network(fabric, collective, factor_allreduce(fabric, collective, **options))  # type: ignore[arg-type]
