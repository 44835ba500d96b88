"""What train reports of steps and of serving, of results by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from harness.snapshots import check
from treadle.render.training import format_count, gigabytes, phase_rows, step_rows
from treadle.schedules.mesh import Mesh
from treadle.training.fitting_settings import Alternative
from treadle.training.timeline.task import Category

GB = 2**30


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *(
            (0, "0"),
            (1.2345, "1.23"),
            (9.996, "10"),
            (10, "10"),
            (999.4, "999"),
            (999.5, "1.00K"),
            (9996, "10.0K"),
            (1000, "1.00K"),
        ),
        *(
            (12345, "12.3K"),
            (999_499, "999K"),
            (999_500, "1.00M"),
            (1e6, "1.00M"),
            (8.03e9, "8.03B"),
            (1e12, "1.00T"),
        ),
        (1.5e16, "15000T"),
    ],
)
def test_counts_have_three_digits(number: float, text: str) -> None:
    assert format_count(number) == text


def test_gigabytes_have_three_digits() -> None:
    assert [gigabytes(size) for size in (GB, 1.5 * GB, 123.45 * GB, GB / 1024)] == [
        *("1 GB", "1.5 GB", "123 GB", "0.000977 GB")
    ]


def memory(total: float, states: float) -> Any:
    """Parts of a stage: states, and activations of the rest; one part too small to tell."""
    return SimpleNamespace(
        total_bytes=total, by_part={"states": states, "activations": total - states, "rest": 2**20 - 1}
    )


def options(**changes: Any) -> Any:
    values = {
        "micro_batches": 1,
        "interleave": 1,
        "recompute": "none",
        "has_fused_attention": True,
        "gradient_bytes": 2,
        "element_bytes": 2,
        "bucket_bytes": None,
        "streams": "one",
        "expert_order": None,
        "zero": 0,
        "kappa": Fraction(1, 4),
    }
    return SimpleNamespace(**(values | changes))


def outcome(**changes: Any) -> Any:
    values = {
        "iteration_s": Fraction(3, 2),
        "compute_s": Fraction(1),
        "contention_s": Fraction(1, 8),
        "exposed_s": {Category.ALLREDUCE: Fraction(1, 4)},
        "idle_s": Fraction(1, 20),
        "mfu": 0.4567,
        "flops_per_rank_per_s": 5e12,
        "tokens_per_s": 12345.0,
        "bucket_bytes": None,
        "setup": SimpleNamespace(options=options()),
        "memory": [memory(3 * GB, GB), memory(5 * GB, 2 * GB), memory(4 * GB, GB)],
    }
    return SimpleNamespace(**(values | changes))


def row(schedule: str = "best", fabric: str = "here", **changes: Any) -> Any:
    values = {
        "fabric": fabric,
        "schedule": schedule,
        "words": f"words of {schedule}",
        "model_words": ("exact",),
        "is_bound": False,
        "exposed_s": 0.375,
        "outcome": outcome(),
        "priced": (),
    }
    return SimpleNamespace(**(values | changes))


ALTERNATIVES = (Alternative("--zero 1", 3.5 * GB, True), Alternative("--zero 2", 3 * GB, True))


def result(*rows: Any, **changes: Any) -> Any:
    setup = SimpleNamespace(
        device=SimpleNamespace(name="a100", memory_bytes=4 * GB),
        precision="bf16",
        sequences=12,
        tokens={"": 2048},
        options=changes.pop("options", options()),
        times=SimpleNamespace(words="by shapes"),
    )
    for name in ("tokens", "memory_bytes"):
        if name in changes:
            holder = setup if name == "tokens" else setup.device
            setattr(holder, name, changes.pop(name))
    values = {
        "setup": setup,
        "model": SimpleNamespace(
            name="m",
            source="",
            parameters=7 * 10**9,
            active_parameters=7 * 10**9,
            embedding_parameters=0,
            n_layers=3,
            unit="token",
        ),
        "mesh": Mesh((2, 1, 3), ("dp", "pp", "tp")),
        "rows": rows or (row(),),
        "contention": SimpleNamespace(kappa=0.25, words="measured", is_given=True),
        "network_words": "",
        "calibration": None,
        "notes": ("assumed",),
        "alternatives": changes.pop("alternatives", ALTERNATIVES),
        "exposed_categories": (Category.ALLREDUCE, Category.SEND),
        "seconds": 2.5,
    }
    return SimpleNamespace(**(values | changes))


def serving(phase: str, *rows: Any) -> Any:
    setup = SimpleNamespace(
        device=SimpleNamespace(name="a100", memory_bytes=4 * GB),
        tokens={"": 100, "image": 7},
        times=SimpleNamespace(words="by shapes"),
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


def test_steps() -> None:
    """Settings of all kinds, several fabrics, and schedules whose times come from different models."""
    model = SimpleNamespace(
        name="m",
        source="hub",
        parameters=7 * 10**9,
        active_parameters=10**9,
        embedding_parameters=5 * 10**8,
        n_layers=3,
        unit="sample",
    )
    priced = SimpleNamespace(
        kind=Category.ALLREDUCE,
        axes=("dp",),
        algbw=Fraction(7, 2),
        delay_s=0.5,
        model=SimpleNamespace(value="x"),
    )
    bucketed = row(is_bound=True, outcome=outcome(bucket_bytes=2**20), priced=(priced,))
    busy = result(
        bucketed,
        model=model,
        options=options(micro_batches=4, interleave=2, gradient_bytes=4, bucket_bytes=8),
        calibration=SimpleNamespace(efficiency=0.51234, row="one", measured_s=1.5),
        network_words="slow",
        memory_bytes=5 * GB,
        notes=(),
    )
    texts = result(
        bucketed,
        row("a-long-schedule", model_words=("other", "exact")),
        tokens={"text": 7, "": 5},
        options=options(recompute="attention", has_fused_attention=False),
    )
    check("steps", *map(step_rows, (result(), busy, texts, result(row(), row(fabric="there")))))


def test_phases_of_serving() -> None:
    rows = (phase_row(2, 4 * GB), phase_row(8, 6 * GB), phase_row(16, 8 * GB))
    decode = serving("decode", rows[0], phase_row(2, GB, "there"))
    check("phases", phase_rows(serving("prefill", *rows)), phase_rows(decode))
