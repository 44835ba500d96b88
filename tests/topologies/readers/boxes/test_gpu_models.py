"""What is known of GPUs, their links and PCIe; boxes as values, and what of them is refused."""

from __future__ import annotations

from typing import Any

from treadle.topologies.readers.boxes.box import (
    Gpu,
)
from treadle.topologies.readers.boxes.wiring import (
    Wired,
    wire,
)
from treadle.topologies.readers.imported import (
    ImportOptions,
    SourceFile,
)

SOURCE = SourceFile("", "box.xml")


def gpus(*names: str, model: str = "", generation: str = "") -> tuple[Gpu, ...]:
    return tuple(Gpu(name=name, model=model, generation=generation) for name in names)


def wired(
    found: tuple[Gpu, ...], counts: dict[tuple[int, int | None], int] | None = None, **options: Any
) -> Wired:
    return wire(SOURCE, found, counts or {}, ImportOptions(**options))


def test_older_gpus_without_links_have_none() -> None:
    assert wired(gpus("A", generation="sm 69")) == Wired(word="NVLink")
    assert wired(gpus("A", "B", generation="gfx942")) == Wired(word="xGMI")
