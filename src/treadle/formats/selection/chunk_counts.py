"""Chunks whose number divides more sizes, at the price of trees that carry unequal parts.

Runtimes take a text for sizes that its chunks divide. Thirteen trees a root of sixteen make 208 chunks,
which divide no power of two; but with a shard in 64 parts, of which twelve trees move five and one moves
four, there are 1024. Nothing else changes: no tree, path, order or message. What it costs is what the busiest
link carries more.
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
"""Throughput that may be given up, unasked, for sizes that are served."""
MAX_CHUNKS = 2**19
"""Chunks of all ranks together up to which grids are looked for: interpreters hold each of them."""


@dataclass(frozen=True)
class Grid:
    """A program in the chunks that a text names.

    Parameters
    ----------
    program : Program
    plan_chunks : int
        Chunks that the plan's trees or steps ask for.
    loss : Fraction
        Throughput that is lost, as a share of the plan's: 0 where the chunks are the plan's.
    """

    program: Program
    plan_chunks: int
    loss: Fraction

    @property
    def is_plan(self) -> bool:
        """Whether the chunks are the plan's own."""
        return self.program.n_chunks == self.plan_chunks


def facts_of(program: Program, min_bytes: int = 0, max_bytes: int = 0) -> FileFacts:
    """What selectors look at in a program's text."""
    return FileFacts(program.kind, program.n_ranks, program.n_chunks, min_bytes, max_bytes)


def parts_of(program: Program) -> int:
    """Chunks of a shard, or of the whole buffer where calls count that.

    Raises
    ------
    ScheduleError
        If shards differ.
    """
    facts = facts_of(program)
    if not facts.is_by_shard:
        return program.n_chunks
    sizes = np.diff(program.shard_offset)
    if sizes.min() != sizes.max():
        raise ScheduleError("the shards differ in their numbers of chunks")
    return int(sizes[0])


def regrid(program: Program, parts: int, topology: Topology, *, by_step: bool = False) -> Grid:
    """The program with every shard (or the whole buffer) in so many chunks.

    Parameters
    ----------
    program : Program
    parts : int
        At least `parts_of(program)`; the j-th of k old chunks begins at new chunk floor(j * parts / k).
    topology : Topology
        The fabric of the program's paths, for what the unequal parts cost.
    by_step : bool
        The plan moves in steps, each as long as its busiest link takes; else as its busiest link in all.

    Raises
    ------
    ScheduleError
        If some chunk would vanish, or the shards differ.
    """
    old = parts_of(program)
    if parts < old:
        raise ScheduleError(f"{parts} chunks are less than the plan's {old}: some would be empty")
    numbers = np.arange(program.n_addresses + 1, dtype=np.int64)
    bounds = numbers // old * parts + numbers % old * parts // old
    new = recut(program, bounds)
    before, after = (_busy_time(one, topology, by_step=by_step) for one in (program, new))
    return Grid(new, program.n_chunks, 1 - before / after if after else Fraction(0))


def choose_grid(
    program: Program,
    topology: Topology,
    selector: Selector,
    *,
    min_bytes: int = 0,
    max_bytes: int = 0,
    by_step: bool = False,
) -> Grid:
    """The plan's chunks, or the fewest that serve more sizes at a loss below `MAX_LOSS`.

    Parameters
    ----------
    program : Program
    topology : Topology
    selector : Selector
        Of the runtime that the text is for.
    min_bytes, max_bytes : int
        Sizes that the text is meant for.
    by_step : bool
        As for `regrid`.
    """
    plan = Grid(program, program.n_chunks, Fraction(0))
    count = len(supported_call_sizes(facts_of(program, min_bytes, max_bytes), selector))
    own = parts_of(program)
    for parts in (1 << power for power in range((own - 1).bit_length(), MAX_CHUNKS.bit_length())):
        n_chunks = parts * program.n_chunks // own
        if n_chunks * program.n_ranks > MAX_CHUNKS:
            break
        facts = FileFacts(program.kind, program.n_ranks, n_chunks, min_bytes, max_bytes)
        if len(supported_call_sizes(facts, selector)) <= count:
            break  # finer ones serve still less
        grid = regrid(program, parts, topology, by_step=by_step)
        if grid.loss < MAX_LOSS:
            return grid
    return plan


def _busy_time(program: Program, topology: Topology, *, by_step: bool) -> Fraction:
    """Share of the buffer that the busiest link carries, per byte/s, of every step or of all together.

    Where paths are unknown, the share of the largest message.
    """
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    if not sends.size or np.any(program.path[sends] < 0):
        return Fraction(int(program.count.max(initial=0)), program.n_chunks)
    steps = program.step[sends] if by_step else np.zeros_like(sends)
    return sum((_busiest(program, sends[steps == step], topology) for step in np.unique(steps)), Fraction(0))


def _busiest(program: Program, sends: Int64Array, topology: Topology) -> Fraction:
    """Share of the buffer that the busiest link carries of some sends, per byte/s."""
    per_path = np.bincount(program.path[sends], weights=program.count[sends], minlength=program.n_paths)
    over = np.repeat(per_path, np.diff(program.path_offset))
    loads = np.bincount(program.path_links, weights=over, minlength=topology.n_links).astype(np.int64)
    # of links alike in bandwidth the one with the largest load
    heaviest = {
        int(value): int(loads[topology.bandwidths == value].max()) for value in np.unique(topology.bandwidths)
    }
    return max(
        (Fraction(load, value * program.n_chunks) for value, load in heaviest.items()), default=Fraction(0)
    )
