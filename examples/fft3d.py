"""A distributed 3D FFT whose transposes are all-to-alls by Treadle: slabs, numpy FFTs, the time split.

Rank r holds the planes z of its slab. It transforms them in x and y, cuts the result into one block for each
rank, and after the all-to-all it holds some rows y for every z, which it transforms in z. The way back is
the same all-to-all the other way round. Every value is checked against numpy.fft.fftn of the whole grid.

    python examples/fft3d.py --grid 32 --fabric "hypercube(3)"
    mpirun -n 4 python examples/fft3d.py --grid 32 --ranks 4 --runtime mpi

The grid need not be a multiple of the ranks: slabs then differ by a plane, and the demands of the all-to-all
with them. Numbers are moved as 32-bit words: an all-to-all copies bits and adds nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.errors import ScheduleError, TreadleError
from treadle.planning import ElementType, RuntimeName, SolveResult, program_of, solve
from treadle.program.program import Buffer, Program
from treadle.runtime.in_process import Execution, PreparedProgram
from treadle.runtime.mpi import RankExecution, load_mpi
from treadle.runtime.rank_script import PreparedRank
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies import parse

Complex = NDArray[np.complex128]
DEFAULT_BANDWIDTH = "25Gbit/s"  # as in the all-to-all paper
STAGES = ("FFT", "pack", "all-to-all")
LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Variables in which Open MPI's and MPICH's launchers tell how many processes they started."""
WORDS = np.dtype(np.complex128).itemsize // np.dtype(np.int32).itemsize


class Slabs:
    """Which planes, and after the transpose which rows, each rank has.

    Parameters
    ----------
    grid : int
        Points n along each side.
    ranks : int
    """

    def __init__(self, grid: int, ranks: int) -> None:
        if not 1 <= ranks <= grid:
            raise ScheduleError(f"grid {grid}: expected at least one plane for each of {ranks} ranks")
        self.grid, self.ranks = grid, ranks
        self.bounds = [rank * grid // ranks for rank in range(ranks + 1)]
        self.width = [high - low for low, high in pairwise(self.bounds)]

    def part(self, rank: int) -> slice:
        """Planes or rows of a rank."""
        return slice(self.bounds[rank], self.bounds[rank + 1])

    def demands(self) -> Demands:
        """Lines of n points from rank to rank: planes of the one times rows of the other."""
        return Demands(np.outer(self.width, self.width))

    @property
    def words(self) -> int:
        """32-bit words of the largest buffer."""
        return self.demands().buffer_units * self.grid * WORDS


class Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what happens inside as `name`."""
        start = perf_counter()
        yield
        self.seconds[name] += perf_counter() - start


class InProcess:
    """All ranks in this process, one after another."""

    def __init__(self, program: Program, words: int) -> None:
        self.members = list(range(program.n_ranks))
        self._run = Execution(PreparedProgram(program), words, element=ElementType.INT32)
        self.memories = [memory.arrays for memory in self._run.memories]

    def exchange(self) -> None:
        """INPUT of every rank to OUTPUT."""
        self._run.run()

    def slowest(self, seconds: float) -> float:
        """What to report: the time of all ranks together."""
        return seconds

    def total(self, value: float) -> float:
        """The largest value of all processes."""
        return value


class OneOfMany:
    """The rank of this MPI process."""

    def __init__(self, program: Program, words: int) -> None:
        mpi = load_mpi()
        self._mpi, self._world = mpi, mpi.COMM_WORLD
        rank = self._world.Get_rank()
        self.members = [rank]
        prepared = PreparedRank(program, rank)
        self._run = RankExecution(prepared, mpi, self._world, words, element=ElementType.INT32)
        self.memories = [self._run.memory.arrays]

    def exchange(self) -> None:
        """INPUT of this rank to OUTPUT, together with all others; waiting for them counts."""
        self._run.run()

    def slowest(self, seconds: float) -> float:
        """The time of the slowest process."""
        return self.total(seconds)

    def total(self, value: float) -> float:
        """The largest value of all processes."""
        return float(self._world.allreduce(value, op=self._mpi.MAX))


Runtime = InProcess | OneOfMany


def transpose(runtime: Runtime, slabs: Slabs, mine: Sequence[Complex], clock: Clock) -> list[Complex]:
    """From the first axis dealt out to the second: arrays (own, n, n) to arrays (n, own, n)."""
    with clock.stage("pack"):
        for array, memory in zip(mine, runtime.memories, strict=True):
            blocks = [array[:, slabs.part(rank)].reshape(-1) for rank in range(slabs.ranks)]
            memory[Buffer.INPUT][:] = np.concatenate(blocks).view(np.int32)
    with clock.stage("all-to-all"):
        runtime.exchange()
    with clock.stage("pack"):
        return [
            memory[Buffer.OUTPUT].view(np.complex128).reshape(slabs.grid, slabs.width[rank], slabs.grid)
            for rank, memory in zip(runtime.members, runtime.memories, strict=True)
        ]


def forward(runtime: Runtime, slabs: Slabs, planes: Sequence[Complex], clock: Clock) -> list[Complex]:
    """The transform, with rows y dealt out: result[z, y, x]."""
    with clock.stage("FFT"):
        flat = [np.fft.fft2(part, axes=(1, 2)) for part in planes]
    rows = transpose(runtime, slabs, flat, clock)
    with clock.stage("FFT"):
        return [np.fft.fft(part, axis=0) for part in rows]


def backward(runtime: Runtime, slabs: Slabs, rows: Sequence[Complex], clock: Clock) -> list[Complex]:
    """The inverse transform, back to planes z; demands are symmetric, so the same plan serves."""
    with clock.stage("FFT"):
        flat = [np.fft.ifft(part, axis=0) for part in rows]
    with clock.stage("pack"):
        turned = [part.swapaxes(0, 1) for part in flat]
    planes = transpose(runtime, slabs, turned, clock)
    with clock.stage("FFT"):
        return [np.fft.ifft2(part.swapaxes(0, 1), axes=(1, 2)) for part in planes]


def largest_error(found: Sequence[Complex], wanted: Sequence[Complex], scale: float) -> float:
    """Largest difference of any value, as a share of `scale`; nan where something is nan."""
    return max(float(np.abs(one - other).max()) / scale for one, other in zip(found, wanted, strict=True))


def make_plan(fabric: str, grid: int, algorithm: str) -> tuple[Slabs, SolveResult]:
    """A verified plan of the all-to-all that transposes the grid, one rank for each compute node."""
    topology = parse(fabric)
    nodes = tuple(topology.compute_nodes.tolist())
    slabs = Slabs(grid, len(nodes))
    collective = Collective(CollectiveKind.ALLTOALL, nodes, demands=slabs.demands())
    return slabs, solve(topology, collective, algorithm=algorithm)


def measure(runtime: Runtime, slabs: Slabs, *, repeats: int, seed: int) -> tuple[dict[str, float], float]:
    """Seconds a round trip takes by stage, and the largest relative error of both ways."""
    n = slabs.grid
    parts = np.random.default_rng(seed).normal(size=(2, n, n, n))
    whole: Complex = parts[0] + 1j * parts[1]
    planes = [whole[slabs.part(rank)] for rank in runtime.members]
    direct = np.fft.fftn(whole)
    wanted = [direct[:, slabs.part(rank)] for rank in runtime.members]
    clock, error = Clock(), 0.0
    for repeat in range(repeats + 1):
        if repeat == 1:
            clock = Clock()  # the first run warms caches up
        rows = forward(runtime, slabs, planes, clock)
        back = backward(runtime, slabs, rows, clock)
        found = (
            largest_error(rows, wanted, float(np.abs(direct).max())),
            largest_error(back, planes, float(np.abs(whole).max())),
        )
        error = max(error, runtime.total(float(np.nan_to_num(max(found), nan=np.inf))))
    return {name: runtime.slowest(seconds) / repeats for name, seconds in clock.seconds.items()}, error


def report(arguments: argparse.Namespace, slabs: Slabs, result: SolveResult) -> dict[str, Any]:
    """What the plan says, before anything is run."""
    size = slabs.words * 4
    return {
        "fabric": result.plan.topology.name,
        "runtime": str(arguments.runtime),
        "algorithm": arguments.algorithm,
        "grid": slabs.grid,
        "ranks": slabs.ranks,
        "buffer_bytes": size,
        "alltoall_on_modelled_fabric_s": float(size / result.algbw),
    }


def show(values: dict[str, Any], seconds: dict[str, float]) -> None:
    """The time split as a table."""
    print(
        f"3D FFT and inverse, {values['grid']}^3 complex128, {values['ranks']} ranks on {values['fabric']}, "
        f"{values['runtime']}, {values['algorithm']}"
    )
    total = sum(seconds.values())
    for name, spent in seconds.items():
        print(f"  {name:<12}{1e3 * spent:10.3f} ms {spent / total:7.1%}")
    print(f"  {'total':<12}{1e3 * total:10.3f} ms")
    print(
        f"  largest relative error {values['error']:.1e}; each all-to-all would take "
        f"{1e3 * values['alltoall_on_modelled_fabric_s']:.3g} ms on the modelled fabric, without latency"
    )


def launched_processes() -> int:
    """How many processes an MPI launcher started; 1 without one."""
    told = [os.environ.get(name, "") for name in LAUNCHED]
    return max((int(count) for count in told if count.isdecimal()), default=1)


def arguments_of(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse and complete the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--grid", type=int, default=32, help="points along each side (32)")
    parser.add_argument(
        "--ranks", type=int, help="number of ranks; default: compute nodes of the fabric, or 4"
    )
    parser.add_argument("--fabric", help="direct-connect catalogue expression; default a ring")
    parser.add_argument(
        "--runtime",
        type=RuntimeName,
        choices=list(RuntimeName),
        help="default in-process, under mpirun mpi",
    )
    parser.add_argument("--algorithm", default="pipelined", help="of the all-to-all (pipelined)")
    parser.add_argument("--repeats", type=int, default=3, help="timed round trips (3)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    arguments = parser.parse_args(argv)
    if arguments.repeats < 1:
        parser.error("--repeats: expected at least 1")
    if arguments.runtime is None:
        # else each process would do the work of all of them
        arguments.runtime = RuntimeName.MPI if launched_processes() > 1 else RuntimeName.IN_PROCESS
    if arguments.fabric is None:
        arguments.fabric = f"ring({arguments.ranks or 4}, bandwidth='{DEFAULT_BANDWIDTH}')"
    return arguments


def start(arguments: argparse.Namespace) -> tuple[Slabs, SolveResult, Runtime]:
    """Plan, program and memory."""
    slabs, result = make_plan(arguments.fabric, arguments.grid, arguments.algorithm)
    if arguments.ranks not in (None, slabs.ranks):
        raise ScheduleError(f"--ranks {arguments.ranks}: {arguments.fabric} has {slabs.ranks} compute nodes")
    program = program_of(result.plan, slabs.words * 4)
    if arguments.runtime is RuntimeName.IN_PROCESS:
        return slabs, result, InProcess(program, slabs.words)
    processes = load_mpi().COMM_WORLD.Get_size()
    if processes != slabs.ranks:
        raise ScheduleError(
            f"{processes} MPI processes, expected {slabs.ranks}, one for each rank; start with: "
            f"mpirun -n {slabs.ranks} python examples/fft3d.py --runtime mpi"
        )
    return slabs, result, OneOfMany(program, slabs.words)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example; 0 if every value is right, 1 if not, 2 for bad input."""
    arguments = arguments_of(argv)
    speaks = True
    try:
        if arguments.runtime is RuntimeName.MPI:
            speaks = load_mpi().COMM_WORLD.Get_rank() == 0
        slabs, result, runtime = start(arguments)
    except TreadleError as refusal:
        # every process makes the same plan, so that all of them end here or none
        if speaks:
            print(f"fft3d: {refusal}", file=sys.stderr)
        return 2
    seconds, error = measure(runtime, slabs, repeats=arguments.repeats, seed=arguments.seed)
    values = {**report(arguments, slabs, result), "error": error}
    is_right = error < 1e-12 * slabs.grid
    if speaks and arguments.json:
        print(json.dumps({**values, "seconds": seconds, "is_right": is_right}, allow_nan=False))
    elif speaks:
        show(values, seconds)
    if speaks and not is_right:
        print(f"fft3d: the transform is wrong by {error:.1e} of its largest value", file=sys.stderr)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
