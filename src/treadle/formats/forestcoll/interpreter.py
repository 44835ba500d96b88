"""Carries out ForestColl's trees: who sends must have been sent to, and in the end everybody was.

With a plan beside it, a file is held against the plan's trees, path by path, unit by unit. Shares no code
with the writer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from treadle.formats.forestcoll.reader import ForestcollFile, ForestcollTree, read
from treadle.formats.verdict import Check, Planned, Terms, Verdict, listed
from treadle.schedules.schedule import written_out
from treadle.schedules.trees.forest import ForestSchedule, Tree, Trees

MAX_VIOLATIONS = 1000
_Edges = tuple[int, tuple[tuple[str, ...], ...]]
"""A unit tree: its root, and for each rank the nodes from its parent to it (none at the root)."""


def interpret(files: Sequence[bytes], terms: Terms) -> Verdict:
    """Follow the trees, and compare them with a plan's; FormatError if they are malformed or hostile."""
    file = read(files[0], terms)
    nodes = file.nodes()
    faults = list(_followed(file, nodes))
    detail = ""
    if terms.planned is not None:
        detail = ", then compared with the plan tree by tree"
        faults += _compared(file, terms.planned)
    counts = (("tree", len(file.trees)), ("send", sum(len(tree.sends) for tree in file.trees)))
    kind = "broadcast" if len({tree.root for tree in file.trees}) == 1 else "allgather"
    return Verdict(Check.EXECUTED, listed(faults, MAX_VIOLATIONS), counts, len(nodes), kind, detail)


def _followed(file: ForestcollFile, nodes: Sequence[str]) -> Iterator[str]:
    """Trees that do not reach all nodes, and roots whose trees do not carry all their chunks."""
    carried: Counter[str] = Counter()
    for tree in file.trees:
        carried[tree.root] += tree.chunks
        depth = {tree.root: 0}
        for send in tree.sends:
            name = f"line {tree.line}: {send.tail} to {send.head}"
            if send.tail not in depth:
                yield f"{name}: sends what it has not got"
            elif send.head in depth:
                yield f"{name}: sends what is there already"
            else:
                depth[send.head] = depth[send.tail] + 1
        missing = [node for node in nodes if node not in depth]
        if missing:
            yield f"line {tree.line}: the tree never reaches {len(missing)} nodes, first {missing[0]}"
        elif max(depth.values()) != tree.height:
            yield f"line {tree.line}: height {tree.height}, found {max(depth.values())}"
    for root in nodes if len(carried) > 1 else carried:
        if carried[root] != file.chunks_per_node:
            yield f"trees of root {root} carry {carried[root]} chunks, expected {file.chunks_per_node}"


def _compared(file: ForestcollFile, planned: Planned) -> Iterator[str]:
    """Where file and plan differ: ranks are written as numbers, other nodes by their names."""
    schedule = written_out(planned.schedule)
    if not isinstance(schedule, ForestSchedule) or schedule.broadcast is None or len(schedule.forests) != 1:
        yield "the plan is no allgather of trees"
        return
    forest: Trees = schedule.broadcast
    wanted: Counter[_Edges] = Counter()
    names = {node: str(rank) for rank, node in enumerate(planned.collective.ranks)}
    for node, name in enumerate(planned.topology.node_names):
        names.setdefault(node, name)
    for root in range(forest.n_ranks):
        for tree in forest.trees(root):
            for edges, units in _units(tree, forest, planned, names):
                wanted[edges] += units
    grain = sum(wanted.values())
    found: Counter[_Edges] = Counter()
    for written in file.trees:
        own = _edges(written, forest.n_ranks)
        if own is None:
            yield f"line {written.line}: its nodes are no ranks of the plan"
            return
        found[own] += written.chunks
    total = sum(found.values())
    if total == 0 or {key: value * total for key, value in wanted.items()} != {
        key: value * grain for key, value in found.items()
    }:
        strange = sum(1 for key in found if key not in wanted)
        yield f"its trees are not those of the plan ({strange} of them are unknown to it, or shares differ)"


def _units(
    tree: Tree, forest: Trees, planned: Planned, names: Mapping[int, str]
) -> Iterator[tuple[_Edges, int]]:
    """The unit trees of a weighted one, each with the nodes of its own paths, and how many are alike."""
    topology = planned.topology
    rows: list[list[tuple[int, tuple[str, ...]]]] = []
    for rank in range(forest.n_ranks):
        row: list[tuple[int, tuple[str, ...]]] = []
        past = 0
        for entry in range(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1])):
            links = forest.path(int(tree.entry_path[entry])).tolist()
            nodes = [int(topology.tails[links[0]]), *(int(topology.heads[link]) for link in links)]
            past += int(tree.entry_units[entry])
            row.append((past, tuple(names[node] for node in nodes)))
        rows.append(row or [(tree.multiplicity, ())])
    first = 0
    while first < tree.multiplicity:
        here = [next(entry for entry in row if entry[0] > first) for row in rows]
        past = min(entry[0] for entry in here)
        yield (tree.root, tuple(nodes for _, nodes in here)), past - first
        first = past


def _edges(tree: ForestcollTree, n_ranks: int) -> _Edges | None:
    """A tree of the file in the same terms; None if a node is no rank."""
    rank = {str(number): number for number in range(n_ranks)}
    if tree.root not in rank:
        return None
    edges: list[tuple[str, ...]] = [()] * n_ranks
    for send in tree.sends:
        if send.head not in rank or send.tail not in rank:
            return None
        edges[rank[send.head]] = (send.tail, *send.between, send.head)
    return rank[tree.root], tuple(edges)
