"""Measures thread-block programs: proves them right, runs them at every size, checks every element."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.errors import ScheduleError
from treadle.program.group_lists import ProgramGroups, as_groups
from treadle.program.program import Buffer, Program
from treadle.runtime.data import ElementType, Reduction, numpy_dtype
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_machine import BlockMachine
from treadle.runtime.device.block_program import BlockProgram, DeviceProtocol
from treadle.runtime.device.block_sizes import (
    BlockChoice,
    BlockLimits,
    choose_blocks,
    sizes_of,
    unchosen_blocks,
)
from treadle.runtime.device.happens_before import check_blocks
from treadle.runtime.device.sized_blocks import at_size
from treadle.runtime.measured_sizes import SweepRow, row_of
from treadle.runtime.measured_sizes import group_pattern as pattern_of
from treadle.runtime.memory import Layout, allocate, count_wrong, fill_input
from treadle.runtime.run_options import RunOptions
from treadle.topologies.topology import Topology

LAUNCHES = 4
"""Number of launches in a row at each size, each with data of its own."""

ELEMENT_CODES = {element: code for code, element in enumerate(ElementType)}
"""Codes of the kernels, in the order of ``kernel/lanes.cpp``."""
_FOUR_LAUNCHES_BYTES = 2**27


def measure_blocks(
    program: Program | ProgramGroups,
    sizes: Iterable[int],
    machine: Callable[[BlockProgram], BlockMachine],
    options: RunOptions,
    *,
    limits: BlockLimits,
    on_row: Callable[[SweepRow], None] | None = None,
    switches: Topology | None = None,
) -> list[SweepRow]:
    """A row for each size and protocol.

    Parameters
    ----------
    program : Program or ProgramGroups
        Of several groups: one runs after the other.
    sizes : iterable of int
        Bytes of the larger per-rank buffer, rounded down to whole elements.
    machine : callable
        From a thread-block program to its machine.
    options : RunOptions
        A time is the mean of `LAUNCHES` launches in a row, of two for large data.
    limits : BlockLimits
        What is not chosen by size; of protocols those of `options`.
    on_row : callable, optional
        Called with every row as it is ready.
    switches : Topology, optional
        The fabric of the program's paths, as for `lower_to_blocks`.

    Raises
    ------
    ScheduleError
        If the program cannot be executed, is not proved right, or a wait was given up.
    """
    programs = as_groups(program).programs
    figures = sizes_of(programs[0])
    ready: dict[tuple[DeviceProtocol, int], list[_ProvedBlocks]] = {}
    rows: list[SweepRow] = []
    choices: list[tuple[DeviceProtocol, ...]] = [(one,) for one in options.device_protocols]
    for size, protocols in product(sizes, choices or [tuple(DeviceProtocol)]):
        within = replace(limits, protocols=protocols)
        if options.lane_costs is None:
            choice = unchosen_blocks(within)
        else:
            choice = choose_blocks(figures, size, options.lane_costs, limits=within)
        key = choice.protocol, choice.lanes
        if key not in ready:
            ready[key] = [_ProvedBlocks(one, options, machine, *key, switches) for one in programs]
        count = size // options.element.n_bytes
        done = [one.checked_launches(count, options, choice, group) for group, one in enumerate(ready[key])]
        wrong = [found for found, _ in done]
        row = row_of(options, programs[0], count, [sum(seconds for _, seconds in done)], wrong)
        rows.append(replace(row, protocol=choice.protocol.value))
        if on_row is not None:
            on_row(rows[-1])
    return rows


def can_switch_sum(element: ElementType, reduction: Reduction) -> bool:
    """Whether switches combine such elements: multimem.ld_reduce has no minimum and maximum of float32."""
    return element is not ElementType.FLOAT32 or reduction in (Reduction.SUM, Reduction.AVG)


class _ProvedBlocks:
    """A thread-block program of one protocol, with its machine; proved right for each number of slices."""

    def __init__(
        self,
        program: Program,
        options: RunOptions,
        machine: Callable[[BlockProgram], BlockMachine],
        protocol: DeviceProtocol,
        most_lanes: int,
        switches: Topology | None,
    ) -> None:
        if switches is not None and options.lanes is None:
            most_lanes = max(2, most_lanes)  # one that asks a switch for sums is refused
        lanes = lower_to_blocks(
            program,
            protocol,
            lanes=most_lanes,
            averages=options.reduction is Reduction.AVG,
            switches=switches,
            switch_sums=can_switch_sum(options.element, options.reduction),
        )
        self.machine = machine(lanes)
        self._most_slots = max((message.slots for message in lanes.messages), default=0)
        self._proved: set[int] = set()

    def checked_launches(
        self, count: int, options: RunOptions, choice: BlockChoice, group: int
    ) -> tuple[int, float]:
        """Wrong elements of all ranks and launches, and seconds of a launch."""
        lanes, dtype = self.machine.lanes, numpy_dtype(options.element)
        tables = at_size(lanes, count, element_bytes=dtype.itemsize, slice_bytes=choice.slice_bytes)
        self._prove(min(tables.slices, self._most_slots + 2))
        layout = Layout(lanes.program, count)
        memories = [allocate(layout, rank, dtype) for rank in range(lanes.program.n_ranks)]
        data = sum(one.nbytes for memory in memories for one in memory.arrays.values())
        launches = LAUNCHES if data <= _FOUR_LAUNCHES_BYTES else 2
        patterns = [pattern_of(lanes.program, count, options, group, launch) for launch in range(launches)]
        inputs: list[list[NDArray[Any]]] = [[] for _ in memories]
        for rank, memory in enumerate(memories):
            for pattern in patterns:
                fill_input(rank, memory, pattern)
                inputs[rank].append(memory.arrays[Buffer.INPUT].copy())
        outputs = [[np.empty_like(memory.arrays[Buffer.OUTPUT]) for _ in patterns] for memory in memories]
        self.machine.threads = choice.threads
        element = ELEMENT_CODES[options.element]
        seconds = self.machine.run(
            tables, memories, inputs, outputs, element=element, reduction=options.reduction
        )
        wrong = 0
        for rank, memory in enumerate(memories):
            for pattern, output in zip(patterns, outputs[rank], strict=True):
                memory.arrays[Buffer.OUTPUT][...] = output
                wrong += count_wrong(layout, rank, memory, pattern)
        return wrong, seconds / launches

    def _prove(self, slices: int) -> None:
        lanes = self.machine.lanes
        if slices not in self._proved:
            for fault in check_blocks(lanes, slices=slices)[:1]:
                raise ScheduleError(f"thread-block program of protocol {lanes.protocol} is wrong: {fault}")
            self._proved.add(slices)
