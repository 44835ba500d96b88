"""Small factored forests, made by cutting fabrics at given sets and solving the pieces one by one.

Relays are removed with the outside world as one more terminal; nothing is shared with solver and expansion.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.factored import (
    CirculantTrees,
    Crossings,
    FactoredForest,
    FactoredSchedule,
    Layer,
    Subproblem,
    TableTrees,
)
from treadle.schedules.trees.forest import Direction, Forest
from treadle.synthesis.trees.instance import Instance, find_violated_cut
from treadle.synthesis.trees.packers.tree_packing import pack_trees, to_forest
from treadle.synthesis.trees.switch_removal import LogicalGraph, remove_switches
from treadle.topologies.topology import Topology, TopologyBuilder

Sample = tuple[Topology, Collective, FactoredSchedule]


@dataclass
class _Cut:
    """A set of nodes with its children: node numbers, or frozensets."""

    nodes: frozenset[int]
    children: list[int | frozenset[int]] = field(default_factory=list)
    relays: list[int] = field(default_factory=list)


def family(topology: Topology, sets: Sequence[Sequence[str]]) -> list[_Cut]:
    """The pieces of a laminar family, outer ones first; the whole fabric is piece 0."""
    all_sets = sorted(
        {frozenset(map(topology.node_index, names)) for names in sets} | {frozenset(range(topology.n_nodes))},
        key=lambda nodes: (-len(nodes), min(nodes)),
    )
    cuts = []
    for nodes in all_sets:
        inner = [other for other in all_sets if other < nodes]
        inner = [one for one in inner if not any(one < other for other in inner)]
        rest = sorted(nodes.difference(*inner))
        children: list[int | frozenset[int]] = [*inner, *(v for v in rest if topology.is_compute[v])]
        children.sort(key=lambda child: min(child) if isinstance(child, frozenset) else child)
        cuts.append(_Cut(nodes, children, [v for v in rest if not topology.is_compute[v]]))
    return cuts


def _local(topology: Topology, cut: _Cut, reverse: bool) -> tuple[Topology, list[int]]:
    """The piece as a fabric of its own, links turned round if `reverse`; and its links' numbers."""
    builder = TopologyBuilder("piece")
    names: dict[int, str] = {}
    for number, child in enumerate(cut.children):
        name = builder.compute(f"c{number}")
        names |= dict.fromkeys(child if isinstance(child, frozenset) else [child], name)
    names |= {node: builder.switch(f"w{node}") for node in cut.relays}
    outside = len(cut.nodes) < topology.n_nodes
    if outside:
        builder.compute("z")
    links = []
    for link, (tail, head) in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        ends = [names.get(tail, "z"), names.get(head, "z")]
        if ends[0] != ends[1]:
            links.append(link)
            builder.link(*(ends[::-1] if reverse else ends), bandwidth=1)
    return builder.build(), links


def _instance(local: Topology, terminals: Sequence[int]) -> Instance:
    return Instance(
        topology=local,
        direction=Direction.BROADCAST,
        terminals=np.array(terminals, dtype=np.int32),
        weights=np.ones(len(terminals), dtype=np.int64),
        tails=local.tails,
        heads=local.heads,
        bandwidths=local.bandwidths,
    )


def _parts(graph: LogicalGraph, arc: int) -> list[tuple[list[int], int]]:
    """Paths and units of an arc."""
    span = range(int(graph.segment_offset[arc]), int(graph.segment_offset[arc + 1]))
    return [
        (
            graph.path_links[graph.path_offset[p] : graph.path_offset[p + 1]].tolist(),
            int(graph.segment_units[s]),
        )
        for s in span
        for p in [int(graph.segment_path[s])]
    ]


class _Offsets:
    """Hands out capacity units of links in order."""

    def __init__(self) -> None:
        self._next: Counter[int] = Counter()

    def take(self, path: Sequence[int], units: int) -> tuple[int, int]:
        """First capacity unit on the first and on the last link of a path."""
        first = self._take(path[0], units)
        return first, first if len(path) == 1 else self._take(path[-1], units)

    def _take(self, link: int, units: int) -> int:
        self._next[link] += units
        return self._next[link] - units


def _crossings(
    rows: list[tuple[list[int], int, int]], offsets: _Offsets, native: Int64Array, *, inwards: bool
) -> Crossings:
    """Rows of (path, units, child)."""
    next_unit = dict(enumerate(native.tolist()))
    table, paths = [], []
    for path, units, child in rows:
        first, last = offsets.take(path, units)
        border, offset, inner = (path[0], first, last) if inwards else (path[-1], last, first)
        table.append((border, offset, units, child, inner, len(paths), next_unit[child] if inwards else 0))
        next_unit[child] += units
        paths.append(path)
    columns = np.array(sorted(table), dtype=np.int64).reshape(len(table), 7).T
    return Crossings(*columns, *_ragged(paths))


def _ragged(paths: Sequence[Sequence[int]]) -> tuple[Int64Array, Int64Array]:
    offset = np.cumsum([0, *map(len, paths)])
    return offset, np.array([link for path in paths for link in path], dtype=np.int64)


def _table(forest: Forest, n: int, offsets: _Offsets) -> TableTrees:
    """An explicit forest of a piece as rows of equal paths."""
    rows = []
    for root in range(n):
        for tree in forest.trees(root):
            ends = [np.cumsum(tree.entry_units[a:b]) for a, b in _spans(tree.entry_offset)]
            cuts = np.unique(np.concatenate([[0, tree.multiplicity], *ends]))
            for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
                cells = [(-1, -1, -1)] * n
                for child, (a, b) in enumerate(_spans(tree.entry_offset)):
                    if a < b:
                        path = int(tree.entry_path[a + np.searchsorted(ends[child], begin, side="right")])
                        cells[child] = (path, *offsets.take(forest.path(path).tolist(), end - begin))
                rows.append((root, end - begin, tree.parent.tolist(), cells))
    cells = np.array([row[3] for row in rows], dtype=np.int64).reshape(len(rows), n, 3)
    return TableTrees(
        root=np.array([row[0] for row in rows], dtype=np.int32),
        units=np.array([row[1] for row in rows], dtype=np.int64),
        parent=np.array([row[2] for row in rows], dtype=np.int32).reshape(len(rows), n),
        path=cells[:, :, 0].astype(np.int32),
        first=cells[:, :, 1],
        last=cells[:, :, 2],
        path_offset=forest.path_offset,
        path_table=forest.path_links,
    )


def _spans(offset: Int64Array) -> list[tuple[int, int]]:
    return list(zip(offset[:-1].tolist(), offset[1:].tolist(), strict=True))


def solve_piece(local: Topology, capacity: Int64Array, native: Int64Array, outside_units: int) -> Subproblem:
    """A piece by the pipeline's stages; the outside world is the last compute node if it has any units."""
    n = len(native)
    terminals = list(range(n)) + ([int(np.flatnonzero(local.is_compute)[-1])] if outside_units else [])
    outside = terminals[-1] if outside_units else -1
    wanted = np.append(native, outside_units) if outside_units else native
    graph = remove_switches(_instance(local, terminals), capacity, wanted)
    offsets = _Offsets()
    entering, leaving, keep = [], [], []
    for arc, (tail, head) in enumerate(zip(graph.tails.tolist(), graph.heads.tolist(), strict=True)):
        if tail == outside:
            entering += [(*part, head) for part in _parts(graph, arc)]
        elif head == outside:
            leaving += [(*part, tail) for part in _parts(graph, arc)]
        else:
            keep.append(arc)
    entrances = _crossings(entering, offsets, native, inwards=True)
    exits = _crossings(leaving, offsets, native, inwards=False)
    roots = native.copy()
    np.add.at(roots, entrances.child, entrances.units)
    return Subproblem(capacity, native, _pack(local, graph, keep, roots, offsets), entrances, exits)


def _pack(
    local: Topology, graph: LogicalGraph, keep: list[int], roots: Int64Array, offsets: _Offsets
) -> TableTrees:
    n = len(roots)
    if n == 1:
        rootless = [[-1]]
        return TableTrees([0], roots, rootless, rootless, rootless, rootless, [0], [])
    parts = [
        np.arange(graph.segment_offset[arc], graph.segment_offset[arc + 1], dtype=np.int64) for arc in keep
    ]
    order = np.concatenate(parts)
    inside = replace(
        graph,
        tails=graph.tails[keep],
        heads=graph.heads[keep],
        capacities=graph.capacities[keep],
        segment_offset=np.cumsum([0, *map(len, parts)]),
        segment_path=graph.segment_path[order],
        segment_units=graph.segment_units[order],
    )
    problem = _instance(local, list(range(n)))
    return _table(to_forest(problem, inside, pack_trees(problem, inside, roots)), n, offsets)


def cut_layer(
    topology: Topology,
    sets: Sequence[Sequence[str]],
    capacity: Sequence[int],
    multiplicity: Sequence[int],
    *,
    reverse: bool = False,
) -> Layer:
    """A layer that has every set as a piece; all sets must be tight."""
    cuts = family(topology, sets)
    units = np.array(capacity, dtype=np.int64)
    rank_of = {int(node): rank for rank, node in enumerate(np.flatnonzero(topology.is_compute))}
    number = {cut.nodes: i for i, cut in enumerate(cuts)}
    pieces: list[Subproblem] = []
    known: dict[bytes, int] = {}
    kind, outer, children, child_count, links = [], [-1] * len(cuts), [], [], []
    for i, cut in enumerate(cuts):
        local, mine = _local(topology, cut, reverse)
        native = np.array([_planted(child, rank_of, multiplicity) for child in cut.children], dtype=np.int64)
        outside = sum(multiplicity) - int(native.sum()) if i else 0
        key = repr(
            (local.tails.tolist(), local.heads.tolist(), units[mine].tolist(), native.tolist(), outside)
        )
        if key.encode() not in known:
            known[key.encode()] = len(pieces)
            pieces.append(solve_piece(local, units[mine], native, outside))
        kind.append(known[key.encode()])
        for child in cut.children:
            if isinstance(child, frozenset):
                outer[number[child]] = i
                children.append(~number[child])
            else:
                children.append(rank_of[child])
        child_count.append(len(cut.children))
        links.append(mine)
    return Layer(
        pieces=tuple(pieces),
        kind=np.array(kind, dtype=np.int32),
        outer=np.array(outer, dtype=np.int32),
        child_offset=np.cumsum([0, *child_count]),
        children=np.array(children, dtype=np.int32),
        link_offset=np.cumsum([0, *map(len, links)]),
        links=np.array([link for mine in links for link in mine], dtype=np.int32),
    )


def _planted(child: int | frozenset[int], rank_of: dict[int, int], multiplicity: Sequence[int]) -> int:
    nodes = child if isinstance(child, frozenset) else [child]
    return sum(multiplicity[rank_of[node]] for node in nodes if node in rank_of)


def boxes(n_boxes: int, n_gpus: int, *, inner: int, nic: int, planes: int = 1) -> Topology:
    """Boxes with an inner switch, and a link from every GPU to every plane."""
    builder = TopologyBuilder(f"{n_boxes} boxes")
    for box in range(n_boxes):
        names = [builder.compute(f"g{box}.{i}") for i in range(n_gpus)]
        switch = builder.switch(f"s{box}")
        for name in names:
            builder.duplex(name, switch, inner)
    for plane in range(planes):
        switch = builder.switch(f"p{plane}")
        for box in range(n_boxes):
            for i in range(n_gpus):
                builder.duplex(f"g{box}.{i}", switch, nic)
    return builder.build()


def box_sets(n_boxes: int, n_gpus: int) -> list[list[str]]:
    """Each box of `boxes` with its switch."""
    return [[*(f"g{box}.{i}" for i in range(n_gpus)), f"s{box}"] for box in range(n_boxes)]


def pods() -> tuple[Topology, list[list[str]]]:
    """Two pods of two boxes of two GPUs: pods and boxes are tight for one tree per GPU.

    R = 8. Into a box go 8 - 2 = 6 units, three to each GPU; into a pod 8 - 4 = 4 units, from the spine to the
    leaf. A GPU of box 0 of each pod has a link to the spine of its own, so one link crosses two borders.
    """
    builder = TopologyBuilder("pods")
    sets = []
    for pod in "ab":
        leaf = builder.switch(f"leaf{pod}")
        names = [leaf]
        for box in (0, 1):
            gpus = [builder.compute(f"{pod}{box}{i}") for i in (0, 1)]
            switch = builder.switch(f"s{pod}{box}")
            for gpu in gpus:
                builder.duplex(gpu, switch, 5)
            mine = [*gpus, switch]
            sets.append(mine)
            names += mine
            builder.duplex(gpus[0], leaf, 3 if box else 2)
            builder.duplex(gpus[1], leaf, 3)
        sets.append(names)
    spine = builder.switch("spine")
    for pod in "ab":
        builder.duplex(f"leaf{pod}", spine, 3)
        builder.duplex(f"{pod}00", spine, 1)
    return builder.build(), sets


def _schedule(kind: CollectiveKind, multiplicity: Sequence[int], *layers: Layer) -> FactoredSchedule:
    forest = FactoredForest(Direction.BROADCAST, np.array(multiplicity, dtype=np.int64), layers)
    return FactoredSchedule(kind, broadcast=forest)


def two_boxes() -> Sample:
    """R = 6; 3 units into each box, one by each NIC."""
    topology = boxes(2, 3, inner=5, nic=1)
    layer = cut_layer(topology, box_sets(2, 3), topology.bandwidths.tolist(), [1] * 6)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    return topology, collective, _schedule(CollectiveKind.ALLGATHER, [1] * 6, layer)


def nested_pods() -> Sample:
    """Three levels."""
    topology, sets = pods()
    layer = cut_layer(topology, sets, topology.bandwidths.tolist(), [1] * 8)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    return topology, collective, _schedule(CollectiveKind.ALLGATHER, [1] * 8, layer)


def circulant() -> Sample:
    """Three boxes whose trees a formula gives, over two planes; 2 trees per rank, blocks of 2."""
    topology = boxes(3, 2, inner=8, nic=2, planes=2)
    layer = cut_layer(topology, box_sets(3, 2), topology.bandwidths.tolist(), [2] * 6)
    outer = layer.pieces[0]
    links = layer.links[: layer.link_offset[1]]
    columns: tuple[list[list[int]], list[list[int]]] = ([], [])
    planes = [topology.node_index(name) for name in ("p0", "p1")]
    for box in range(3):
        inside = {topology.node_index(f"g{box}.{i}") for i in range(2)}
        for column, near, far in zip(
            columns, (topology.tails, topology.heads), (topology.heads, topology.tails), strict=True
        ):
            column.append(
                [i for p in planes for i, e in enumerate(links.tolist()) if near[e] in inside and far[e] == p]
            )
    first = [[0, 2, 4, 6, 8]] * 3
    none = [[0] * 4] * 3
    trees = CirculantTrees(columns[0], columns[1], first, first, none, none, 3, 4, 2)
    layer = replace(layer, pieces=(replace(outer, trees=trees), *layer.pieces[1:]))
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    return topology, collective, _schedule(CollectiveKind.ALLGATHER, [2] * 6, layer)


def superposed() -> Sample:
    """A layer of boxes, and one of the whole fabric in a single piece."""
    topology = boxes(2, 3, inner=9, nic=2)
    is_nic = topology.bandwidths == 2
    cut = cut_layer(topology, box_sets(2, 3), np.where(is_nic, 1, 5).tolist(), [1] * 6)
    flat = cut_layer(topology, [], np.where(is_nic, 1, 4).tolist(), [1] * 6)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    return topology, collective, _schedule(CollectiveKind.ALLGATHER, [2] * 6, cut, flat)


def single_root() -> Sample:
    """A broadcast of four trees: only the box that the root is not in is tight."""
    topology = boxes(2, 2, inner=4, nic=2)
    layer = cut_layer(topology, box_sets(2, 2)[1:], topology.bandwidths.tolist(), [4, 0, 0, 0])
    collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
    return topology, collective, _schedule(CollectiveKind.BROADCAST, [4, 0, 0, 0], layer)


def reducing_pods() -> Sample:
    """An allreduce: in-trees through pods and boxes, then out-trees."""
    topology, sets = pods()
    layers = [
        cut_layer(topology, sets, topology.bandwidths.tolist(), [1] * 8, reverse=r) for r in (True, False)
    ]
    collective = on_all_ranks(topology, CollectiveKind.ALLREDUCE)
    one = np.ones(8, dtype=np.int64)
    return (
        topology,
        collective,
        FactoredSchedule(
            CollectiveKind.ALLREDUCE,
            reduce=FactoredForest(Direction.REDUCE, one, layers[:1]),
            broadcast=FactoredForest(Direction.BROADCAST, one, layers[1:]),
        ),
    )


def random_sample(seed: int) -> Sample | None:
    """Boxes of random sizes and weights, all of them tight; None where they have no forest.

    The links of a box to the switches outside are drawn so that their capacity is just what the box needs.
    """
    draw = random.Random(seed)
    sizes = [draw.randint(1, 3) for _ in range(draw.randint(2, 4))]
    weights = [draw.choice((0, 1, 1, 2, 3)) for _ in range(sum(sizes))]
    weights[0] += not any(weights)
    total = sum(weights)
    builder = TopologyBuilder(f"random {seed}")
    planes = [builder.switch(f"p{i}") for i in range(draw.randint(1, 2))]
    sets: list[list[str]] = []
    first = 0
    for box, size in enumerate(sizes):
        names = [builder.compute(f"g{box}.{i}") for i in range(size)]
        switch = builder.switch(f"s{box}")
        for name in names:
            builder.duplex(name, switch, draw.randint(total, total + 2))
        for tail, head in itertools.pairwise(names):
            if draw.random() < 0.3:
                builder.duplex(tail, head, draw.randint(1, 3))
        needed = total - sum(weights[first : first + size])
        first += size
        while needed:
            units = draw.randint(1, needed)
            builder.duplex(draw.choice([*names, switch]), draw.choice(planes), units)
            needed -= units
        if total > sum(weights[first - size : first]):
            sets.append([*names, switch])
    if len(planes) == 2:
        builder.duplex(planes[0], planes[1], draw.randint(1, 2 * total))
    topology = builder.build()
    is_compute = np.flatnonzero(topology.is_compute)
    whole = replace(_instance(topology, is_compute.tolist()), weights=np.array(weights, dtype=np.int64))
    if find_violated_cut(whole, topology.bandwidths) is not None:
        return None
    layer = cut_layer(topology, sets, topology.bandwidths.tolist(), weights)
    collective = Collective(CollectiveKind.ALLGATHER, tuple(is_compute.tolist()), weights=tuple(weights))
    return topology, collective, _schedule(CollectiveKind.ALLGATHER, weights, layer)


SAMPLES: dict[str, Callable[[], Sample]] = {
    sample.__name__: sample
    for sample in (two_boxes, nested_pods, circulant, superposed, single_root, reducing_pods)
}
