"""Random small fabrics of unequal boxes on several planes: closed forms attain the exact optimum."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.tight_cuts.decompose import FactoredSynthesis, decompose
from treadle.topologies.catalogue.platforms import add_box
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify


def boxes_of(rng: random.Random, style: str) -> list[list[list[int]]]:
    """For each box the groups of GPUs that its switch joins, and the plane of each GPU."""
    planes, count = rng.randint(1, 3), rng.randint(3, 7)
    if style == "mixed":
        step = rng.randint(1, 2) * planes
        sizes = [step * rng.choice([1, 2]) for _ in range(count)]
        return [[[j % planes for j in range(size)]] for size in sizes]
    if style == "irregular":
        return [[[rng.randrange(planes) for _ in range(rng.randint(1, 5))]] for _ in range(count)]
    whole = list(range(2)) * rng.choice([1, 2])
    boxes = [[whole] for _ in range(rng.randint(10, 14))]
    for number in rng.sample(range(len(boxes)), 1):
        lost = rng.randrange(len(whole))
        boxes[number] = [whole[:lost] + whole[lost + 1 :], [whole[lost]]]
    return boxes


def fabric(rng: random.Random, style: str) -> Topology:
    """With network cards as nodes, sometimes."""
    boxes = boxes_of(rng, style)
    builder = TopologyBuilder(f"{style} boxes")
    used = sorted({plane for box in boxes for group in box for plane in group})
    tops = {plane: builder.switch(f"ib{plane}") for plane in used}
    inside, network, cards = rng.choice([100, 300]), rng.choice([10, 25]), rng.random() < 0.3
    for i, box in enumerate(boxes):
        for part, group in enumerate(box):
            name = f"box{i}.{part}"
            alone = len(group) == 1
            gpus = [builder.compute(name)] if alone else add_box(builder, name, len(group), inside)
            for j, (gpu, plane) in enumerate(zip(gpus, group, strict=True)):
                end = gpu
                if cards:
                    end = builder.switch(f"{name}.nic{j}")
                    builder.duplex(gpu, end, network)
                builder.duplex(end, tops[plane], network)
    return builder.build()


def solved(rng: random.Random, style: str) -> tuple[Topology, Collective, FactoredSynthesis | Unsupported]:
    topology = fabric(rng, style)
    kind = rng.choice([CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
    collective = on_all_ranks(topology, kind)
    return topology, collective, decompose(topology, collective)


@pytest.mark.parametrize(("style", "count"), [("irregular", 16), ("mixed", 24), ("lone", 10)])
def test_unequal_children_attain_the_optimum(style: str, count: int) -> None:
    forms: Counter[str] = Counter()
    for seed in range(count):
        rng = random.Random(seed)
        topology, collective, found = solved(rng, style)
        if isinstance(found, Unsupported):
            continue
        best = optimum(topology, collective).algbw
        assert found.algbw == best, (style, seed)
        for form in (found.schedule, found.schedule.explicit()) if seed % 3 == 0 else (found.schedule,):
            report = verify(topology, collective, form, claimed_algbw=best)
            assert not report.violations, (style, seed)
        forms[found.parts[0].kinds[0].packer] += 1
    closed = sum(forms[one] for one in ("relayed stars", "relay planes", "class trees", "relay trees"))
    assert closed > count // 2, forms
    assert forms[{"irregular": "relayed stars", "mixed": "relay planes", "lone": "class trees"}[style]] > 1
