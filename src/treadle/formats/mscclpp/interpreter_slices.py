"""Operations of an MSCCL++ plan as its interpreter meets them: in slices, with the ends each may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import gcd, lcm

from treadle.formats.mscclpp.reader import PACKETS, BufferChunks, ExecutionPlan, MscclppOperation


@dataclass(frozen=True)
class Scale:
    """Units that chunks are cut into, and how pipelines go through them.

    Parameters
    ----------
    units : int
        Of a chunk: the executor's 16 bytes, of which real chunks have more.
    turns : int
        Of every pipeline, if `slots` is 0; else each turn moves a unit.
    slots : int
        Units of a chunk of scratch, which pipelines use in turn; 0: as many as of any chunk.
    """

    units: int = 1
    turns: int = 2
    slots: int = 0


def even_units(plan: ExecutionPlan) -> int:
    """Fewest units of a chunk that all groups of blocks divide evenly."""
    even = 1
    for operation in plan.operations:
        of = operation.part[1]
        for place in (*operation.sources, *operation.targets):
            even = lcm(even, of // gcd(of, place.size))
    return even


def scales(plan: ExecutionPlan) -> tuple[Scale, ...]:
    """Sizes of chunks that show what is wrong with a plan: pipelines need two turns, groups of blocks parts.

    Where there are groups, also sizes that these do not divide evenly.
    """
    units = even_units(plan) * (2 if any(operation.inner for operation in plan.operations) else 1)
    if all(operation.part[1] == 1 for operation in plan.operations):
        return (Scale(units),)
    return tuple(Scale(one) for one in dict.fromkeys((units, units + 1, 2 * units - 1)))


def unrolled(block: list[MscclppOperation], scale: Scale) -> Iterator[MscclppOperation]:
    """Operations in units of chunks, each block's part of them alone, pipelines turn by turn."""
    for operation in block:
        if operation.name != "pipeline":
            yield _cut(operation, scale)
            continue
        total = operation.numbers[0] * scale.units
        step = 1 if scale.slots else -(-total // scale.turns)
        for start in range(0, total, step):
            for inner in operation.inner:
                cut = _cut(inner, scale)
                # packets ignore the turn: each moves the whole range
                yield cut if inner.name in PACKETS else _slice(cut, start, step, scale.slots)


def part_of(size: int, number: int, of: int) -> tuple[int, int]:
    """First unit and number of units that a block of a group moves; the first blocks take what is over."""
    least, more = divmod(size, of)
    return number * least + min(number, more), least + (number < more)


def _cut(operation: MscclppOperation, scale: Scale) -> MscclppOperation:
    if scale.units == 1 and operation.part[1] == 1:
        return operation

    def finer(place: BufferChunks) -> BufferChunks:
        each = scale.slots if place.letter == "s" and scale.slots else scale.units
        first, size = part_of(place.size * scale.units, *operation.part)
        return replace(place, index=place.index * each + first, size=size)

    return _changed(operation, finer)


def _changed(operation: MscclppOperation, place: Callable[[BufferChunks], BufferChunks]) -> MscclppOperation:
    sources, targets = operation.sources, operation.targets
    return replace(operation, sources=tuple(map(place, sources)), targets=tuple(map(place, targets)))


def _slice(operation: MscclppOperation, start: int, step: int, slots: int) -> MscclppOperation:
    def part(place: BufferChunks) -> BufferChunks:
        left = place.size - start
        # the executor's own arithmetic is unsigned: a turn past the end runs wild
        size = min(left, step) if left > 0 or start == 0 else -1
        offset = start % slots if slots and place.letter == "s" else start
        return replace(place, index=place.index + offset, size=size)

    return _changed(operation, part)


FORMS = {
    "put": ("local", "remote"),
    "pws": ("local", "remote"),
    "pwsf": ("local", "remote"),
    "get": ("remote", "local"),
    "copy": ("local", "local"),
    "gstore": ("local", "switch"),
    "glres": ("switch", "switch"),
}
"""What the operations that sum nothing of their own take, and where to."""


def is_sum(operation: MscclppOperation) -> bool:
    """Whether a sum's terms and targets are where its name says: the first of each here, the others there."""
    sources, targets = operation.sources, operation.targets
    far = "remote" if operation.name in ("rre", "rres") else "local"
    return (
        len(sources) > 1
        and (len(targets) > 1) == (operation.name in ("res", "rres"))
        and len(targets) > 0
        and len({place.size for place in (*sources, *targets)}) == 1
        and sources[0].how == targets[0].how == "local"
        and all(place.how == far for place in sources[1:])
        and all(place.how == "remote" for place in targets[1:])
    )
