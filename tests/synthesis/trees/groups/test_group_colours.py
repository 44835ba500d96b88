"""Colours of groups' subgraphs: how many classes there are, and that classes are equitable."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from samples.groups.regular_fabrics import grouped_fabric
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.synthesis.trees.groups.group_colours import Colours, refined, sharpened
from treadle.synthesis.trees.groups.union import GroupUnion, union_of
from treadle.topologies import parse
from treadle.topologies.transforms.changes import with_failed_links


def of(fabric: str, shape: tuple[int, int], axis: str, *, forward: bool, dead: str = "") -> GroupUnion:
    topology = with_failed_links(parse(fabric), dead) if dead else parse(fabric)
    nodes = tuple(topology.compute_nodes.tolist())
    groups = Mesh(shape, ("a", "b")).groups(axis)
    return union_of(
        topology, Collective(CollectiveKind.ALLGATHER, nodes, groups=groups, ranks_forward=forward)
    )


def check_equitable(union: GroupUnion, colours: Colours) -> None:
    """Pairs of a colour have ends and links of equal colours; places and links of a colour, equal pairs."""
    known: dict[int, tuple[int, ...]] = {}
    out: list[Counter[int]] = [Counter() for _ in union.node]
    into: list[Counter[int]] = [Counter() for _ in union.node]
    on: dict[int, Counter[int]] = {}
    copies = np.repeat(union.copies, np.diff(union.offsets)).tolist()
    for pair, (tail, head, link) in enumerate(
        zip(union.tails.tolist(), union.heads.tolist(), union.links.tolist(), strict=True)
    ):
        colour = int(colours.pairs[pair])
        seen = int(colours.places[tail]), int(colours.places[head]), int(colours.links[link])
        assert known.setdefault(colour, seen) == seen
        out[tail][colour] += 1
        into[head][colour] += 1
        on.setdefault(link, Counter())[colour] += 1 if union.is_own[pair] else copies[pair]
    ways: dict[int, tuple[Counter[int], Counter[int]]] = {}
    for place, colour in enumerate(colours.places.tolist()):
        assert ways.setdefault(colour, (out[place], into[place])) == (out[place], into[place])
    held: dict[int, Counter[int]] = {}
    for link, pairs in on.items():
        assert held.setdefault(int(colours.links[link]), pairs) == pairs


@pytest.mark.parametrize("seed", range(25))
def test_classes_are_equitable_plain_and_sharp(seed: int) -> None:
    try:
        union = union_of(*grouped_fabric(Random(seed)))
    except InfeasibleError:
        return
    plain = refined(union)
    check_equitable(union, plain)
    sharp = sharpened(union, plain)
    check_equitable(union, sharp)
    both = len(set(zip(plain.pairs.tolist(), sharp.pairs.tolist(), strict=True)))
    assert both == len(np.unique(sharp.pairs)) >= len(np.unique(plain.pairs))


def test_more_groups_than_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.synthesis.trees.groups.union._MOST_PAIRS", 2047)
    with pytest.raises(InfeasibleError, match="8 groups that differ on 256 links"):
        of("torus(8,8)", (8, 8), "a", forward=True)
