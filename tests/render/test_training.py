"""What train reports of steps and of serving, of results by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from harness.snapshots import check
from treadle.render.training import phase_rows
from treadle.schedules.mesh import Mesh

GB = 2**30


def memory(total: float, states: float) -> Any:
    """Parts of a stage: states, and activations of the rest; one part too small to tell."""
    return SimpleNamespace(
        total_bytes=total, by_part={"states": states, "activations": total - states, "rest": 2**20 - 1}
    )


def serving(phase: str, *rows: Any) -> Any:
    setup = SimpleNamespace(
        device=SimpleNamespace(name="a100", memory_bytes=4 * GB),
        tokens={"": 100, "image": 7},
        times=SimpleNamespace(summary="by shapes"),
    )
    for one in rows:
        one.outcome.setup = setup
    return SimpleNamespace(
        rows=rows,
        model=SimpleNamespace(
            name="m", parameters=10**9, active_parameters=10**8, embedding_parameters=0, n_layers=2
        ),
        mesh=Mesh((3,), ("tp",)),
        phase=Phase(phase),
        notes=("assumed",),
        seconds=1.25,
    )


class Phase(str):
    """A phase as the report reads it: text, and a value."""

    @property
    def value(self) -> str:
        return str(self)


def phase_row(batch: int, size: float, fabric: str = "here", models: Any = ("exact",)) -> Any:
    done = SimpleNamespace(
        memory=memory(size, size / 4),
        seconds=Fraction(1, 4),
        device_time=SimpleNamespace(exposed_s={"a": Fraction(1, 20), "b": Fraction(1, 40)}),
        tokens_per_s=4321.0,
    )
    return SimpleNamespace(fabric=fabric, schedule="best", sequences=batch, outcome=done, model_words=models)


def test_phases_of_serving() -> None:
    rows = (phase_row(2, 4 * GB), phase_row(8, 6 * GB), phase_row(16, 8 * GB))
    decode = serving("decode", rows[0], phase_row(2, GB, "there"))
    check("phases", phase_rows(serving("prefill", *rows)), phase_rows(decode))
