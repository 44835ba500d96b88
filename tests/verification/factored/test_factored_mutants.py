"""Factored forests with something changed at random: accepted only if the written-out trees are correct too.

The explicit verifier, which knows no pieces, judges what every mutant expands to.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from reference.formula_checks import one_piece, planes_star
from samples.factored import factored_samples as samples
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.factored import (
    CirculantTrees,
    FactoredSchedule,
    PlaneTrees,
    RelayPlanes,
    RelayTrees,
    TableTrees,
)
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import Outermost
from treadle.synthesis.trees.tight_cuts.closed_forms.even_planes import relay_planes
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.subproblems import cut
from treadle.topologies.catalogue.platforms import add_box
from treadle.topologies.topology import TopologyBuilder
from treadle.topologies.transforms.changes import with_failed_links
from treadle.unsupported import Unsupported
from treadle.verification.factored.height import forest_height
from treadle.verification.schedules import verify

MUTANTS = 31
Path = tuple[str | int, ...]


def on_planes(boxes: Sequence[Sequence[int]], *failures: str, lone: Sequence[int] = ()) -> samples.Sample:
    """Boxes whose GPUs are on these planes, and GPUs without a box, in forests by tight cuts."""
    builder = TopologyBuilder("boxes on planes")
    tops = [builder.switch(f"ib{plane}") for plane in range(1 + max(plane for box in boxes for plane in box))]
    for i, box in enumerate(boxes):
        for gpu, plane in zip(add_box(builder, f"box{i}", len(box), 300), box, strict=True):
            builder.duplex(gpu, tops[plane], 25)
    for i, plane in enumerate(lone):
        builder.duplex(builder.compute(f"lone{i}"), tops[plane], 25)
    topology = with_failed_links(builder.build(), *failures) if failures else builder.build()
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    return topology, collective, found.schedule


def relay_planes_on_a_star() -> samples.Sample:
    """Ranks with unequal numbers of trees on two planes: one piece, whose trees stay on their planes."""
    trees = np.array([[3, 1, 2, 2, 0], [1, 2, 0, 1, 2]]).T
    topology = planes_star(trees.sum(axis=0) - trees, trees.sum(axis=0) - trees)
    weights = tuple(trees.sum(axis=1).tolist())
    collective = Collective(CollectiveKind.ALLGATHER, tuple(range(len(trees))), weights=weights)
    problem = instance_of(topology, collective)
    family = Family(np.array([-1], dtype=np.int32), np.zeros(problem.n_nodes, dtype=np.int32))
    cutting = cut(problem, family, problem.bandwidths, np.array(weights))
    found = relay_planes(Outermost.of(cutting, {}, 1))
    assert not isinstance(found, Unsupported)
    return topology, collective, one_piece(topology, found)


FORMS = {
    "circulant trees": lambda: on_planes([[0, 0]] * 3),
    "relay trees": lambda: on_planes([[0, 0], [0, 0, 0], [0, 0, 0, 0]]),
    "relay planes": relay_planes_on_a_star,
    "planes of unequal boxes": lambda: on_planes([[0, 1], [0, 1, 0, 1], [0, 1], [0, 1, 0, 1]]),
    "plane trees": lambda: on_planes([[0, 1, 0, 1]] * 4, "box1.gpu0--ib0"),
    "plane relays": lambda: on_planes([[0, 1]] * 10, lone=[0, 1]),
    "relayed stars": lambda: on_planes([[0, 1, 2, 0], [1, 1, 2, 2], [0, 1], [0, 1, 2], [0, 0, 1, 2, 2]]),
    **samples.SAMPLES,
}


def parts(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Arrays and numbers of a value, with the attributes and places that lead to them."""
    if isinstance(value, tuple):
        for i, one in enumerate(value):
            yield from parts(one, (*path, i))
    elif is_dataclass(value):
        for field in fields(value):
            if field.init:
                yield from parts(getattr(value, field.name), (*path, field.name))
    elif (isinstance(value, np.ndarray) and value.size) or type(value) is int:
        yield path, value


def changed(value: Any, path: Path, new: Any) -> Any:
    """The value with another part."""
    if not path:
        return new
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        return (*value[:key], changed(value[key], rest, new), *value[key + 1 :])
    return replace(value, **{key: changed(getattr(value, key), rest, new)})


def mutated(draw: random.Random, schedule: FactoredSchedule) -> FactoredSchedule:
    """One part changed: a unit more or less, moved, or two values or rows in each other's place."""
    named: dict[tuple[str, ...], list[tuple[Path, Any]]] = {}
    for path, part in parts(schedule):
        named.setdefault(tuple(key for key in path if isinstance(key, str)), []).append((path, part))
    path, part = draw.choice(named[draw.choice(sorted(named))])
    if isinstance(part, int):
        return changed(schedule, path, part + draw.choice([-1, 1]))
    new = part.copy()
    i, j = draw.randrange(part.size), draw.randrange(part.size)
    flat, kind = new.reshape(-1), draw.choice(["one", "move", "swap", "swap", "rows", "copy"])
    if kind == "one":
        flat[i] += draw.choice([-1, 1])
    elif kind == "move":
        flat[i] += 1
        flat[j] -= 1
    elif kind == "swap":
        flat[[i, j]] = flat[[j, i]]
    elif kind == "rows":
        i, j = draw.randrange(len(new)), draw.randrange(len(new))
        new[[i, j]] = new[[j, i]]
    else:
        flat[i] = flat[j]
    return changed(schedule, path, new)


@pytest.mark.parametrize("form", FORMS)
def test_mutants_are_judged_as_their_trees_are(form: str) -> None:
    topology, collective, schedule = FORMS[form]()
    draw, seen = random.Random(form), Counter[str]()
    for number in range(MUTANTS):
        try:
            mutant = mutated(draw, schedule)
            if draw.random() < 0.25:
                mutant = mutated(draw, mutant)
        except ScheduleError:
            seen["refused at once"] += 1
            continue
        report = verify(topology, collective, mutant)
        if not report.is_ok:
            seen["rejected"] += 1
            continue
        seen["accepted"] += 1
        slow = verify(topology, collective, mutant.explicit())
        assert slow.is_ok, (number, slow.violations[:3])
        assert report.algbw == slow.algbw, number
        assert report.height_max is not None
        assert slow.height_max is not None
        assert report.height_max >= slow.height_max, number
        assert report.height_max == slow.height_max or not report.height_is_exact, number
    assert seen["rejected"] >= 3, seen
    assert seen["accepted"] >= 3, seen


@pytest.mark.parametrize(("cells", "followed"), [(1, False), (40, True)])
@pytest.mark.parametrize("form", ["relay trees", "planes of unequal boxes", "plane trees", "plane relays"])
def test_more_trees_than_are_followed_have_a_bound(
    form: str, cells: int, followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it is the height, and is called so where a tree as high is among those that are followed."""
    layers = FORMS[form]()[2].forests[0].layers
    height = forest_height(layers)
    assert height.is_exact
    monkeypatch.setattr("treadle.verification.factored.outermost._SAMPLE_CELLS", cells)
    found = forest_height(layers)
    assert found.hops == height.hops
    assert found.is_exact is (followed or form == "plane relays")


@cache
def outermost(form: str) -> Any:
    layer = FORMS[form]()[2].forests[0].layers[0]
    return layer.pieces[layer.kind[0]].trees


@pytest.mark.parametrize(
    ("form", "trees", "has_relays"),
    [
        ("circulant trees", CirculantTrees, False),
        ("relay trees", RelayTrees, True),
        ("relay planes", RelayPlanes, True),
        ("plane trees", PlaneTrees, False),
        ("plane relays", PlaneTrees, True),
        ("relayed stars", TableTrees, False),
    ],
)
def test_samples_are_what_they_are_called(form: str, trees: type, has_relays: bool) -> None:
    found = outermost(form)
    assert isinstance(found, trees)
    assert (len(getattr(found, "relay_root", ())) > 0) is has_relays
