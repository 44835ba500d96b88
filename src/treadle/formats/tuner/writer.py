"""Tables for the example tuner plugin of NCCL: for which sizes to take its own ring, tree or NVLS.

The plugin goes through its rows and takes the first that serves a call. Rows are written for those ranges of
a plan whose schedule is NCCL's own; all others are left out, and NCCL chooses there. Source:
plugins/tuner/example/plugin.c of NVIDIA/nccl; which algorithm serves which collective: ``ncclTopoTuneModel``
of src/graph/tuning.cc.
"""

from __future__ import annotations

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
"""Last size where there is no limit: the plugin has no other way to say so."""
_SMALL = 2**16
"""Bytes below which NCCL itself seldom takes the protocol Simple."""


def write(request: FileRequest) -> Written:
    """The rows of all ranges whose schedule is one of NCCL's own."""
    plan, boxes = request.plan, request.boxes
    if plan.collective.kind is CollectiveKind.ALLTOALL:
        raise ScheduleError(f"NCCL tuner: NCCL has one algorithm for {plan.collective.kind}, none to choose")
    channels = request.options.channels if request.options.channels > 1 else -1  # -1 leaves them to NCCL
    nodes = len(boxes) if len(boxes) > 1 else -1  # one box, or ranks of which each is alone: not known
    rows: list[str] = []
    cautions: list[str] = []
    for entry in plan.entries:
        found = own_algorithm(entry, plan, boxes)
        sizes = f"sizes {entry.min_bytes} to {entry.max_bytes or 'any'}"
        if isinstance(found, Unsupported):
            cautions.append(f"{sizes}: left out, NCCL chooses: {found}")
            continue
        # what is asked for, or what the plan's cost model takes at the range's first size, or Simple
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
        raise ScheduleError(f"NCCL tuner: no range is served by an algorithm of NCCL's own; {cautions[0]}")
    if request.options.channels == 1:
        cautions.append(
            "the plugin as NVIDIA ships it sets 1 channel for every call, of rows with -1 and of no "
            "row: begin its pluginGetCollInfo with *nChannels = 0, or give --channels"
        )
    text = "\n".join((f"# {HEADING}", *rows, ""))
    return Written(files=(("", text.encode()),), cautions=tuple(cautions))


def own_algorithm(entry: PlanEntry, plan: Plan, boxes: Sequence[Sequence[int]]) -> str | Unsupported:
    """The name of NCCL's algorithm that an entry's schedule is.

    Both name and form have to agree: a schedule of rings that NCCL would not find is no ring of NCCL's.
    """
    name, kind, schedule = entry.algorithm or plan.algorithm, plan.collective.kind, entry.schedule
    if not isinstance(schedule, ForestSchedule) or name not in ("ring", "double-binary-tree", "nvls"):
        return Unsupported(f"{name} is no algorithm of NCCL's")
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
        return Unsupported("its trees are no chains in boxes joined by binary trees")
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
    """Whether a tree is a chain in each box, and from each box leads to two others at most, from one rank."""
    inside, outside = dict.fromkeys(place, 0), dict.fromkeys(place, 0)
    for rank, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            (inside if place[rank] == place[parent] else outside)[parent] += 1
    if len(set(place.values())) == 1:
        return max(inside.values()) <= 2
    heads = {place[rank] for rank, count in outside.items() if count}
    return (
        max(inside.values()) <= 1
        and max(outside.values()) <= 2
        and len(heads) == sum(count > 0 for count in outside.values())
    )
