"""Writes tables for NCCL's example tuner plugin: the sizes for NCCL's own ring, tree or NVLS.

The plugin uses the first row that matches a call. Rows are written for the ranges of a plan whose schedule is
one of NCCL's; NCCL chooses for all others. Source: plugins/tuner/example/plugin.c of NVIDIA/nccl;
``ncclTopoTuneModel`` of src/graph/tuning.cc lists the algorithms of each collective.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from treadle.errors import ScheduleError
from treadle.formats.file_arguments import runtime_name
from treadle.formats.file_options import PROTOCOLS
from treadle.formats.nccl.writer import chain_of, find_rings
from treadle.formats.request import FileRequest, Written
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.trees.forest import ForestSchedule, Tree
from treadle.unsupported import Unsupported

HEADING = "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff"
UNLIMITED = 2**64 - 1
"""Last size of a range without limit: the plugin has no other notation for it."""
_SMALL = 2**16
"""Bytes below which NCCL itself rarely uses the protocol Simple."""


def write(request: FileRequest) -> Written:
    """Write the rows of all ranges whose schedule is one of NCCL's own."""
    plan, boxes = request.plan, request.boxes
    if plan.collective.kind is CollectiveKind.ALLTOALL:
        raise ScheduleError(f"NCCL tuner: NCCL has one algorithm for {plan.collective.kind}, none to choose")
    channels = request.options.channels if request.options.channels > 1 else -1  # -1 leaves them to NCCL
    nodes = len(boxes) if len(boxes) > 1 else -1  # One box may also mean that the boxes are unknown.
    rows: list[str] = []
    cautions: list[str] = []
    for entry in plan.entries:
        found = own_algorithm(entry, plan, boxes)
        sizes = f"sizes {entry.min_bytes} to {entry.max_bytes or 'any'}"
        if isinstance(found, Unsupported):
            cautions.append(f"{sizes}: left out, NCCL chooses: {found}")
            continue
        # The given protocol, or the cost model's at the range's first size, or Simple.
        at, asked = entry.pipelining_at(entry.min_bytes), request.options.protocol
        protocol = asked or (at.protocol if at is not None and at.protocol in PROTOCOLS else PROTOCOLS[0])
        if found == "nvls":
            protocol = "Simple"
            if asked not in (None, protocol):
                cautions.append(f"{sizes}: NVLS has the protocol Simple alone")
        elif protocol == "Simple" and not asked and entry.min_bytes < _SMALL:
            cautions.append(
                f"{sizes}: written with the protocol Simple, as the plan names none; NCCL itself "
                "takes LL or LL128 for small ones (--protocol)"
            )
        last = UNLIMITED if entry.max_bytes is None else entry.max_bytes
        named = f"{entry.min_bytes},{last},{found},{protocol.lower()},{channels},{nodes}"
        rows.append(f"{runtime_name(plan.collective.kind)},{named},{plan.collective.n_ranks},-1,-1")
    if not rows:
        raise ScheduleError(
            f"NCCL tuner: no range of the plan uses an algorithm of NCCL's own; {cautions[0]}"
        )
    if request.options.channels == 1:
        cautions.append(
            "the plugin as NVIDIA ships it sets 1 channel for every call, of rows with -1 and of no "
            "row: begin its pluginGetCollInfo with *nChannels = 0, or give --channels"
        )
    text = "\n".join((f"# {HEADING}", *rows, ""))
    return Written(files=(("", text.encode()),), cautions=tuple(cautions))


def own_algorithm(entry: PlanEntry, plan: Plan, boxes: Sequence[Sequence[int]]) -> str | Unsupported:
    """Return NCCL's name of the algorithm of an entry's schedule, or why it has none.

    Both name and trees must match: NCCL would not find every ring schedule by itself.
    """
    name, kind, schedule = entry.algorithm or plan.algorithm, plan.collective.kind, entry.schedule
    if not isinstance(schedule, ForestSchedule) or name not in ("ring", "double-binary-tree", "nvls"):
        return Unsupported(f"{name} is not an algorithm of NCCL's")
    place = {rank: box for box, ranks in enumerate(boxes) for rank in ranks}
    trees = [
        tree for forest in schedule.forests for root in range(forest.n_ranks) for tree in forest.trees(root)
    ]
    if name == "nvls":
        if len(boxes) > 1 or any(
            rank != tree.root and tree.parent[rank] != tree.root for tree in trees for rank in place
        ):
            return Unsupported("NVLS over several boxes is another algorithm of NCCL's")
        return "nvls"
    if name == "ring":
        return _ring(schedule, kind, place, len(boxes))
    if kind is not CollectiveKind.ALLREDUCE:
        return Unsupported(f"NCCL has no tree for {kind}")
    if any(not _is_chained(tree, place) for tree in trees):
        return Unsupported("its trees are not chains in boxes joined by binary trees")
    return "tree"


def _ring(
    schedule: ForestSchedule, kind: CollectiveKind, place: dict[int, int], n_boxes: int
) -> str | Unsupported:
    if kind.is_rooted:
        trees = (tree for forest in schedule.forests for root in place for tree in forest.trees(root))
        orders = [chain_of(tree) for tree in trees]
        if any(len(order) < len(place) for order in orders):
            return Unsupported("its trees branch")
    else:
        try:
            orders = [[*ring] for ring in find_rings(schedule)]
        except ScheduleError as error:
            return Unsupported(str(error))
    for order in orders:
        crossings = sum(place[a] != place[b] for a, b in pairwise((*order, order[0])))
        if n_boxes > 1 and crossings != n_boxes:
            return Unsupported("its rings pass some box twice, and NCCL's pass each once")
    return "ring"


def _is_chained(tree: Tree, place: dict[int, int]) -> bool:
    """Whether a tree is a chain in each box, and one rank of each box leads to at most two other boxes."""
    edges = [(parent, rank) for rank, parent in enumerate(tree.parent.tolist()) if parent >= 0]
    inside = Counter(parent for parent, rank in edges if place[rank] == place[parent])
    outside = Counter(parent for parent, rank in edges if place[rank] != place[parent])
    if len(set(place.values())) == 1:
        return max(inside.values(), default=0) <= 2
    return (
        max(inside.values(), default=0) <= 1
        and max(outside.values(), default=0) <= 2
        and len({place[rank] for rank in outside}) == len(outside)
    )
