"""Which calls of NCCL's interface an execution plan serves, told from its text by the executor's rules.

Source: ``checkMessageSize`` and ``getSizeAndChunks`` of src/core/executor/execution_plan.cc, the calls of
src/ext/nccl/nccl.cc and ``useIB`` of src/core/executor/executor.cc of microsoft/mscclpp.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.formats.mscclpp.reader import MAX_TEXT, ExecutionPlan, parse_mscclpp_json
from treadle.input_files import read_input_string

ALIGNMENT = 16
"""Bytes: the executor cuts buffers by them."""
MOST_BYTES = 2**32 - 1
"""Largest buffer: the executor's offsets have 32 bits."""
CALLED = ("allgather", "reducescatter", "allreduce", "broadcast")
"""Collectives that the NCCL interface hands to plans."""
SUMS = ("reducescatter", "allreduce")


class CollectiveCall(Protocol):
    """A request as MSCCL++ hands it to selectors (``CppCollectiveRequest``); sizes in bytes."""

    world_size: int
    n_ranks_per_node: int
    rank: int
    input_buffer: int
    output_buffer: int
    message_size: int
    collective: str
    dtype: Any
    hints: dict[str, list[int]]


@brief("name", "collective", "n_ranks", "first_bytes", "last_bytes")
@dataclass(frozen=True)
class PlanRow:
    """What a plan serves.

    Parameters
    ----------
    path : str
        Absolute: the executor reads the file again for every new size.
    name, collective : str
        The plan's, as it spells them.
    n_ranks : int
    in_place : bool
    root : int
        Of a broadcast, else -1.
    first_bytes, last_bytes : int
        Of the larger per-rank buffer, both inclusive.
    chunks : frozenset of (int, int)
        Numbers of chunks of input and output that some rank has.
    neighbours : frozenset of (int, int)
        Ranks that reach each other's memory, so that they must be on one node.
    """

    path: str
    name: str
    collective: str
    n_ranks: int
    in_place: bool
    root: int
    first_bytes: int
    last_bytes: int
    chunks: frozenset[tuple[int, int]]
    neighbours: frozenset[tuple[int, int]]

    def supports(self, call: CollectiveCall) -> bool:
        """Whether the executor runs the plan on a call, and rightly, but for the type of its elements."""
        if (call.collective, call.world_size) != (self.collective, self.n_ranks):
            return False
        whole = call.message_size * (call.world_size if self.collective == "allgather" else 1)
        return (
            self.first_bytes <= whole <= self.last_bytes
            and self.fits(whole)
            and _is_in_place(call) is self.in_place
            and (self.root < 0 or list(call.hints.get("root", ())) == [self.root])
            and self.is_within_nodes(call.n_ranks_per_node)
        )

    def fits(self, size: int) -> bool:
        """Whether chunks are whole 16 bytes where the larger buffer has so many; else execution throws."""
        if size % self.n_ranks and self.collective in ("allgather", "reducescatter"):
            return False
        part = size // self.n_ranks
        given, made = {"allgather": (part, size), "reducescatter": (size, part)}.get(
            self.collective, (size, size)
        )
        return all(
            given % (ALIGNMENT * inputs) == 0
            and made % (ALIGNMENT * outputs) == 0
            and given // inputs == made // outputs
            for inputs, outputs in self.chunks
        )

    def is_within_nodes(self, ranks_per_node: int) -> bool:
        """Whether ranks that reach each other's memory are on one node of so many ranks."""
        return ranks_per_node > 0 and all(
            one // ranks_per_node == other // ranks_per_node for one, other in self.neighbours
        )


def read_row(path: Path, root: int | None) -> PlanRow:
    """What the plan of a file serves.

    Parameters
    ----------
    path : Path
    root : int, optional
        Of its calls, if it is a broadcast: the text does not say.

    Raises
    ------
    FormatError
        If the file is no execution plan.
    ScheduleError
        If no call is handed to such a plan, or the executor's tables are too small for it.
    """
    text = read_input_string(path, MAX_TEXT, expected="an execution plan")
    plan, heading = parse_mscclpp_json(text, str(path)), json.loads(text)
    if plan.violations:
        raise ScheduleError(f"{path}: {plan.violations[0]}: MSCCL++ cannot hold it")
    if plan.collective not in CALLED:
        raise ScheduleError(
            f"{path}: MSCCL++'s NCCL interface hands no {plan.collective} to plans; its Executor takes it"
        )
    chunks = frozenset((sizes["i"], sizes["o"]) for sizes in plan.sizes)
    if any(0 in pair for pair in chunks):
        raise ScheduleError(f"{path}: a rank has no chunks of input or output, by which MSCCL++ would divide")
    if (plan.collective == "broadcast") != (root is not None):
        wanted = "a broadcast: say root=" if root is None else f"no broadcast, but root={root} was said"
        raise ScheduleError(f"{path}: {wanted}")
    return PlanRow(
        path=str(path.resolve()),
        name=str(heading["name"]),
        collective=plan.collective,
        n_ranks=len(plan.sizes),
        in_place=plan.in_place,
        root=-1 if root is None else root,
        first_bytes=max(plan.min_bytes, 1),
        last_bytes=min(plan.max_bytes, plan.served_bytes, MOST_BYTES),
        chunks=chunks,
        neighbours=frozenset(_neighbours(plan)),
    )


def _neighbours(plan: ExecutionPlan) -> Iterator[tuple[int, int]]:
    """Pairs of ranks with a channel of memory between them, or a switch that both use."""
    for rank, kinds in enumerate(plan.peers):
        yield from ((rank, peer) for peer in kinds.get("memory", ()))
    for operation in plan.operations:
        for place in (*operation.sources, *operation.targets):
            if place.how == "switch":
                yield from ((place.ranks[0], other) for other in place.ranks[1:])


def _is_in_place(call: CollectiveCall) -> bool:
    """Whether input and output are one memory, as NCCL has it.

    Notes
    -----
    ``CollectiveRequest::bufferMode`` of src/core/algorithm.cc sees a reduce-scatter in place on rank 0 alone.
    """
    if call.collective == "allgather":
        return call.input_buffer == call.output_buffer + call.rank * call.message_size
    if call.collective == "reducescatter":
        part = call.message_size // call.world_size
        return call.output_buffer == call.input_buffer + call.rank * part
    return call.input_buffer == call.output_buffer
