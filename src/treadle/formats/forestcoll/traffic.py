"""ForestColl's trees with ranks as numbers."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.formats.forestcoll.reader import read
from treadle.formats.verdict import Terms
from treadle.program.foreign.traffic import NamedTree, NamedTrees


def trees(data: bytes, terms: Terms) -> NamedTrees:
    """The file's trees; ScheduleError for a tree that is none."""
    file, source = read(data, terms), terms.source or "ForestColl's XML"
    nodes = file.nodes()
    rank = {name: number for number, name in enumerate(nodes)}
    found = []
    for tree in file.trees:
        parents = {rank[send.head]: rank[send.tail] for send in tree.sends}
        if len(parents) != len(nodes) - 1 or rank[tree.root] in parents:
            raise ScheduleError(
                f"{source}: line {tree.line}: no tree from {tree.root} to all {len(nodes)} nodes"
            )
        for send in tree.sends:
            if through := [name for name in send.between if name in rank]:
                raise ScheduleError(
                    f"{source}: line {tree.line}: the path from {send.tail[:40]} to {send.head[:40]} goes "
                    f"through {through[0][:40]}, which is a rank; only switches lie between"
                )
        ways = {rank[send.head]: send.between for send in tree.sends}
        found.append(NamedTree(rank[tree.root], tree.chunks, parents, ways, f"line {tree.line}"))
    return NamedTrees(nodes, tuple(found))
