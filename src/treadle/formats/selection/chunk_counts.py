"""Numbers of chunks that divide more sizes, at the price of trees with unequal parts.

Runtimes use a file for sizes that its number of chunks divides. Thirteen trees per root of sixteen make 208
chunks, which divide no power of two; but with a shard in 64 parts, of which twelve trees move five and one
moves four, there are 1024. Trees, paths, order and messages stay the same. The cost is the additional load of
the busiest link.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.formats.selection.supported_sizes import FileFacts, Selector, supported_call_sizes
from treadle.program.passes import recut
from treadle.program.program import OperationKind, Program
from treadle.topologies.topology import Topology

MAX_LOSS = Fraction(1, 100)
"""Throughput that may be given up by default in order to support more sizes."""
MAX_CHUNKS = 2**19
"""Most chunks of all ranks together in the search: interpreters hold each of them."""


@dataclass(frozen=True)
class Grid:
    """A program in the chunks of a runtime file."""

    program: Program
    plan_chunks: int
    """Chunks that the plan's trees or steps need."""
    loss: Fraction = Fraction(0)
    """Lost throughput as a share of the plan's: 0 for the plan's own chunks."""

    @property
    def is_plan(self) -> bool:
        """Whether the chunks are the plan's own."""
        return self.program.n_chunks == self.plan_chunks


def facts_of(program: Program, min_bytes: int = 0, max_bytes: int = 0) -> FileFacts:
    """Return the properties of a program's file that selectors compare."""
    return FileFacts(program.kind, program.n_ranks, program.n_chunks, min_bytes, max_bytes)


def parts_of(program: Program) -> int:
    """Return the chunks of a shard, or of the entire buffer if calls count that."""
    facts = facts_of(program)
    if not facts.is_by_shard:
        return program.n_chunks
    sizes = np.diff(program.shard_offset)
    if sizes.min() != sizes.max():
        raise ScheduleError("the shards differ in their numbers of chunks")
    return int(sizes[0])


def regrid(program: Program, parts: int, topology: Topology, *, by_step: bool = False) -> Grid:
    """Return the program with every shard (or the entire buffer) in `parts` chunks.

    `parts` is at least `parts_of(program)`. Old chunk j of k begins at new chunk floor(j * parts / k).
    The loss compares loads of the busiest link of `topology`: per step, or (default) of all messages.
    """
    old = parts_of(program)
    if parts < old:
        raise ScheduleError(f"{parts} chunks are less than the plan's {old}: some would be empty")
    # Each shard is divided separately, so that shards stay equal.
    numbers = np.arange(program.n_addresses + 1, dtype=np.int64)
    bounds = numbers // old * parts + numbers % old * parts // old
    new = recut(program, bounds)
    before, after = (_busy_time(one, topology, by_step=by_step) for one in (program, new))
    return Grid(new, program.n_chunks, 1 - before / after if after else Fraction(0))


def choose_grid(
    program: Program,
    topology: Topology,
    selector: Selector,
    min_bytes: int = 0,
    max_bytes: int = 0,
    *,
    by_step: bool = False,
) -> Grid:
    """Return the plan's chunks, or the fewest that support more sizes at a loss below `MAX_LOSS`.

    The sizes are those from `min_bytes` to `max_bytes` that the runtime's `selector` accepts.
    """
    count = len(supported_call_sizes(facts_of(program, min_bytes, max_bytes), selector))
    own = parts_of(program)
    for parts in (1 << power for power in range((own - 1).bit_length(), MAX_CHUNKS.bit_length())):
        n_chunks = parts * program.n_chunks // own
        if n_chunks * program.n_ranks > MAX_CHUNKS:
            break
        facts = FileFacts(program.kind, program.n_ranks, n_chunks, min_bytes, max_bytes)
        if len(supported_call_sizes(facts, selector)) <= count:
            break  # More chunks support even fewer sizes.
        grid = regrid(program, parts, topology, by_step=by_step)
        if grid.loss < MAX_LOSS:
            return grid
    return Grid(program, program.n_chunks)


def _busy_time(program: Program, topology: Topology, *, by_step: bool) -> Fraction:
    """Return the load of the busiest link (share of the buffer, per byte/s), summed over steps or in all.

    If paths are unknown, return the share of the largest message.
    """
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    if not sends.size or np.any(program.path[sends] < 0):
        return Fraction(int(program.count.max(initial=0)), program.n_chunks)
    steps = program.step[sends] if by_step else np.zeros_like(sends)
    return sum((_busiest(program, sends[steps == step], topology) for step in np.unique(steps)), Fraction(0))


def _busiest(program: Program, sends: Int64Array, topology: Topology) -> Fraction:
    """Return the load of the busiest link under some sends: share of the buffer, per byte/s."""
    per_path = np.bincount(program.path[sends], weights=program.count[sends], minlength=program.n_paths)
    over = np.repeat(per_path, np.diff(program.path_offset))
    loads = np.bincount(program.path_links, weights=over, minlength=topology.n_links).astype(np.int64)
    # Among links of equal bandwidth only the largest load matters: few fractions are compared.
    heaviest = {
        int(value): int(loads[topology.bandwidths == value].max()) for value in np.unique(topology.bandwidths)
    }
    return max(
        (Fraction(load, value * program.n_chunks) for value, load in heaviest.items()), default=Fraction(0)
    )
