"""Which calls a runtime gives to a text, told from the text alone; shares nothing with what writes texts.

The rules were read in

- Azure/msccl-executor-nccl, ``mscclInternalSchedulerSelectAlgo`` of src/misc/msccl/msccl_lifecycle.cc, and
  the same function of ROCm/rccl: count x multiplier of elements, the multiplier being the ranks for
  allgather, reduce-scatter and all-to-all; sizes up to and with maxBytes, 0 for no limit; in place or not; no
  averages;
- Azure/msccl-scheduler, ``mscclSchedulerSelectAlgo`` of src/scheduler.cc: the call's count as it is;
- microsoft/msccl, ``ncclTopoGetMSCCLAlgo`` and ``mscclInPlaceTotalCountHelper`` of src/graph/tuning.cc: count
  x ranks where the others multiply, of bytes in allgather and broadcast (``ArgsCheck`` of
  src/misc/argcheck.cc), of elements in all-to-all (src/collectives/all_to_all.cc); sizes below maxBytes,
  whatever that is; chunks of the buffers that fit ``nchunksperloop`` (``mscclGetAlgoFromXMLAndSetAlgo`` of
  src/graph/topo.cc);
- microsoft/mscclpp, ``checkMessageSize`` of src/core/executor/execution_plan.cc, ``matchExecutionPlan`` of
  src/ext/nccl/algorithm_selector.cc and the calls of src/ext/nccl/nccl.cc.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache

POWERS = tuple(2**exponent for exponent in range(10, 31))
"""The sizes that texts are judged by: 1 KB to 1 GB."""
SHARDED = ("allgather", "reducescatter", "reduce_scatter", "alltoall")


@dataclass(frozen=True)
class Call:
    """A call of a collective: `count` is the argument of NCCL's function, of one rank where it has shards."""

    collective: str
    n_ranks: int
    count: int
    element: int = 4
    in_place: bool = False
    is_average: bool = False

    @property
    def total(self) -> int:
        """Elements of the larger per-rank buffer."""
        return self.count * (self.n_ranks if self.collective in SHARDED else 1)


def call_of(collective: str, n_ranks: int, size: int, *, element: int = 4, in_place: bool = False) -> Call:
    """The call that nccl-tests makes for a size (its src/all_gather.cu, reduce_scatter.cu, alltoall.cu)."""
    count = size // element
    if collective in SHARDED:
        count = count // n_ranks & ~(16 // element - 1)
    return Call(collective, n_ranks, count, element, in_place)


def serves_msccl(text: str, call: Call, runtime: str) -> bool:
    """Whether the runtime "azure", its library "scheduler", "rccl" or "legacy" gives the text the call."""
    head = dict(re.findall(r'(\w+)="([^"]*)"', text[: text.index(">")]))
    chunks, low, high = (int(head[key]) for key in ("nchunksperloop", "minBytes", "maxBytes"))
    n_bytes = call.total * call.element
    if head["coll"] != call.collective or int(head["ngpus"]) != call.n_ranks or call.is_average:
        return False
    if head["inplace" if call.in_place else "outofplace"] != "1" or not call.count:
        return False
    if runtime == "legacy":
        if not low <= n_bytes < high or not _fits_legacy(text, head):
            return False
        is_bytes = call.collective in ("allgather", "broadcast")
        return (n_bytes if is_bytes else call.total) % chunks == 0
    if n_bytes < low or (high and n_bytes > high):
        return False
    return (call.count if runtime == "scheduler" else call.total) % chunks == 0


def _fits_legacy(text: str, head: dict[str, str]) -> bool:
    """Whether the buffers' chunks agree with nchunksperloop, and maxBytes with minBytes."""
    chunks, n_ranks = int(head["nchunksperloop"]), int(head["ngpus"])
    multipliers = {"allgather": (n_ranks, 1), "reduce_scatter": (1, n_ranks)}.get(head["coll"], (1, 1))
    return int(head["minBytes"]) <= int(head["maxBytes"]) and all(
        int(found) in (0, chunks // multiplier)
        for pair in re.findall(r'i_chunks="(\d+)" o_chunks="(\d+)"', text)
        for found, multiplier in zip(pair, multipliers, strict=True)
    )


_parsed = cache(json.loads)
"""Sets are asked about many calls."""


def serves_mscclpp(text: str, call: Call) -> bool:
    """Whether MSCCL++ executes the call by the plan, on every rank, once the plan is chosen for it."""
    plan = _parsed(text)
    part, whole = call.total // call.n_ranks * call.element, call.total * call.element
    sizes = {"allgather": (part, whole), "reducescatter": (whole, part)}.get(call.collective, (whole, whole))
    unit = plan.get("buffer_alignment", 16)
    if plan["collective"] != call.collective or len(plan["gpus"]) != call.n_ranks or not call.count:
        return False
    compared = sizes[1] if call.collective == "allgather" else sizes[0]
    if not plan["min_message_size"] <= compared <= plan["max_message_size"] or max(sizes) >= 2**32:
        return False
    return plan["inplace"] == call.in_place and all(
        size % unit == 0 and size // unit % gpu[key] == 0
        for gpu in plan["gpus"]
        for size, key in zip(sizes, ("input_chunks", "output_chunks"), strict=True)
    )


def taken_of_folder(texts: dict[str, str], call: Call, runtime: str) -> str | None:
    """The text of a folder that a runtime gives a call, by file name; None: its own algorithms.

    msccl-executor-nccl reads its folder into a sorted ``std::set`` of names (``mscclInternalSchedulerInit``);
    msccl goes through ``MSCCL_XML_FILES``, here in the order given, and reads no more than 4. RCCL and
    msccl-scheduler go through ``readdir``: two texts for a call are an error here, as nobody knows the first.
    """
    names = sorted(texts, key=str.encode) if runtime == "azure" else [*texts]
    assert len(names) <= (4 if runtime == "legacy" else 1024)
    found = [name for name in names if serves_msccl(texts[name], call, runtime)]
    assert len(found) <= 1 or runtime in ("azure", "legacy"), f"{found} in no known order"
    return found[0] if found else None
