"""Operations of an MSCCL++ plan as its interpreter meets them: in slices, with the ends each may have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from treadle.formats.mscclpp.reader import BufferChunks, MscclppOperation


def unrolled(block: list[MscclppOperation], slices: int) -> Iterator[MscclppOperation]:
    """Operations in the finer units of slices, pipelines turn by turn."""
    for operation in block:
        if operation.name != "pipeline":
            yield _cut(operation, slices)
            continue
        unit = operation.numbers[0]
        for turn in range(slices):
            for inner in operation.inner:
                yield _slice(_cut(inner, slices), turn * unit, unit)


def _cut(operation: MscclppOperation, slices: int) -> MscclppOperation:
    if slices == 1:
        return operation

    def finer(place: BufferChunks) -> BufferChunks:
        return replace(place, index=place.index * slices, size=place.size * slices)

    return replace(
        operation,
        sources=tuple(map(finer, operation.sources)),
        targets=tuple(map(finer, operation.targets)),
    )


def _slice(operation: MscclppOperation, start: int, unit: int) -> MscclppOperation:
    def part(place: BufferChunks) -> BufferChunks:
        # the executor's own arithmetic is unsigned: a turn past the end runs wild
        return replace(place, index=place.index + start, size=min(place.size - start, unit))

    return replace(
        operation,
        sources=tuple(map(part, operation.sources)),
        targets=tuple(map(part, operation.targets)),
    )


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
