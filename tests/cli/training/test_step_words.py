"""What reports of steps and of serving say, line by line, of results by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.cli.output import Output
from treadle.cli.training import serve_report, step_report
from treadle.schedules.mesh import Mesh
from treadle.training.forms.axes import AXIS_FORMS
from treadle.training.timeline.task import Category

GB = 2**30


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    """Lines that a call prints, each with single blanks."""

    def told(function: Any, *arguments: Any) -> list[str]:
        capsys.readouterr()
        function(Output(), *arguments)
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    return told


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
    assert step_report.count_text(number) == text


def test_gigabytes_have_three_digits() -> None:
    assert [step_report.gigabytes(size) for size in (GB, 1.5 * GB, 123.45 * GB, GB / 1024)] == [
        *("1 GB", "1.5 GB", "123 GB", "0.000977 GB")
    ]


def test_models_of_times_are_told_once(lines: Any) -> None:
    rows = [("a", ("x", "y")), ("b", ("x",)), ("a", ("z", "y")), ("c", ("x", "z"))]
    assert lines(step_report.print_models, rows) == ["times x", "times a: y", "times a, c: z"]


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
            name="m", source="", parameters=7 * 10**9, active_parameters=7 * 10**9, n_layers=3, unit="token"
        ),
        "mesh": Mesh((2, 1, 3), ("dp", "pp", "tp")),
        "rows": rows or (row(),),
        "contention": SimpleNamespace(kappa=0.25, words="measured", is_given=True),
        "network_words": "",
        "calibration": None,
        "notes": ("assumed",),
        "exposed_categories": (Category.ALLREDUCE, Category.SEND),
        "seconds": 2.5,
    }
    return SimpleNamespace(**(values | changes))


def test_the_setting_of_a_step(lines: Any) -> None:
    assert lines(step_report._print_setting, result()) == [
        "model m: 7.00B parameters, 3 layers",
        "mesh dp=2,pp=1,tp=3 on 6 a100, bf16",
        f"dp: {AXIS_FORMS['dp'].words}",
        f"tp: {AXIS_FORMS['tp'].words}",
        "step 12 sequences of 2048 tokens, recompute none, streams one",
        "compute by shapes",
        "contention 0.25: measured",
        "memory 5 GB of 4 GB at the peak: states 2 GB, activations 3 GB",
        "note does not fit: a device needs 5.0 GB and has 4.0 GB; most of it: activations, 3.0 GB",
        "note assumed",
    ]
    model = SimpleNamespace(
        name="m", source="hub", parameters=7 * 10**9, active_parameters=10**9, n_layers=3, unit="sample"
    )
    fitted = SimpleNamespace(efficiency=0.51234, row="one", measured_s=1.5)
    busy = options(micro_batches=4, interleave=2, gradient_bytes=4, bucket_bytes=8)
    bucketed = row(outcome=outcome(bucket_bytes=2**20))
    told = lines(
        step_report._print_setting,
        result(
            bucketed,
            model=model,
            options=busy,
            calibration=fitted,
            network_words="slow",
            memory_bytes=5 * GB,
            notes=(),
        ),
    )
    assert told[0] == "model m: 7.00B parameters, 1.00B active, 3 layers (hub)"
    assert told[4:] == [
        "step 12 samples, 4 micro-batches, 2 pieces a stage, recompute none, gradients of 4 bytes, buckets "
        "as given, streams one",
        "compute by shapes",
        "fitted efficiency 0.5123, so that one takes 1.50 s as measured; all other rows are predictions",
        "contention 0.25: measured",
        "network slow; bounds stay as they are",
        "memory 5 GB of 5 GB at the peak: states 2 GB, activations 3 GB",
    ]
    best = result(bucketed, tokens={"text": 7, "": 5})
    assert step_report._step(best) == (
        "12 sequences of 7 tokens (text) + 5 tokens, recompute none, buckets best, streams one"
    )
    assert step_report._step(result(options=options(micro_batches=2, interleave=1))) == (
        "12 sequences of 2048 tokens, 2 micro-batches, recompute none, streams one"
    )
    scored = result(options=options(recompute="attention", has_fused_attention=False))
    assert ", recompute attention, attention not fused, " in step_report._step(scored)


CELLS = "1.50 s 1.00 s 375 ms 250 ms 0 50.0 ms 45.7% 12.3K"


def test_rows_of_a_step(lines: Any) -> None:
    long = row("a-long-schedule", model_words=("other",))
    told = lines(step_report.print_steps, result(row(), long))
    assert told[told.index("fabric here") + 1] == ""
    assert "schedule step compute exposed allreduce send idle MFU per s" in told
    assert f"best {CELLS}" in told
    assert told[-9:] == [
        f"a-long-schedule {CELLS}",
        "",
        "per s tokens a second, all ranks together",
        "exposed time in which a rank communicates and does not compute, by what it waits for",
        "MFU model FLOPs (backward 2x forward, nothing recomputed) / (peak x ranks x step)",
        "best words of best",
        "a-long-schedule words of a-long-schedule",
        "times best: exact",
        "times a-long-schedule: other",
    ]
    told = lines(step_report.print_steps, result(row(), row(fabric="there")))
    assert "fabric schedule step compute exposed allreduce send idle MFU per s" in told
    assert f"there best {CELLS}" in told
    assert "fabric here" not in told
    assert told[-2:] == ["best words of best", "times exact"]


def test_steps_in_json() -> None:
    priced = SimpleNamespace(
        kind=Category.ALLREDUCE,
        axes=("dp",),
        algbw=Fraction(7, 2),
        delay_s=0.5,
        model=SimpleNamespace(value="x"),
    )
    fitted = SimpleNamespace(efficiency=0.5, row="one", measured_s=1.5)
    one = result(
        row(is_bound=True, outcome=outcome(bucket_bytes=9), priced=(priced,)),
        calibration=fitted,
        tokens={"": 4, "b": 5},
    )
    one.setup.options.interleave = 3
    one.setup.options.micro_batches = 2
    found = step_report.step_values(one)
    assert found["tokens"] == {"all": 4, "b": 5}
    assert (found["ranks"], found["batch"], found["kappa"]) == (6, 12, 0.25)
    assert (found["micro_batches"], found["interleave"]) == (2, 3)
    assert found["fitted"] == {"efficiency": 0.5, "measured_s": 1.5, "row": "one"}
    assert found["memory_by_part"] == memory(5 * GB, 2 * GB).by_part
    assert found["seconds"] == {"total": 2.5}
    assert found["notes"] == step_report._notes(one)
    (told,) = found["steps_simulated"]  # type: ignore[misc, attr-defined]
    communications = told.pop("communications")
    assert told == {
        "fabric": "here",
        "schedule": "best",
        "bound_only": True,
        "iteration_s": 1.5,
        "compute_s": 1.0,
        "contention_s": 0.125,
        "exposed_s": 0.375,
        "exposed_by_kind": {"allreduce": 0.25},
        "idle_s": 0.05,
        "mfu": 0.4567,
        "flops_per_rank_per_s": 5e12,
        "tokens_per_s": 12345.0,
        "memory_bytes": 5 * GB,
        "bucket_bytes": 9,
    }
    assert [(one["algbw_bytes_per_s"], one["delay_s"], one["time_model"]) for one in communications] == [
        (3.5, 0.5, "x")
    ]
    bare = step_report.step_values(result())
    assert "fitted" not in bare
    assert "bucket_bytes" not in bare["steps_simulated"][0]  # type: ignore[index]


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
        model=SimpleNamespace(name="m", parameters=10**9, active_parameters=10**8, n_layers=2),
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


def test_phases_of_serving(lines: Any) -> None:
    rows = (phase_row(2, 4 * GB), phase_row(8, 6 * GB), phase_row(16, 8 * GB))
    told = lines(serve_report.print_phases, serving("prefill", *rows))
    assert told[:7] == [
        "model m: 1.00B parameters, 2 layers",
        "mesh tp=3 on 3 a100",
        "prefill time to the first token of prompts of 100 + 7 (image) tokens",
        "compute by shapes",
        "note assumed",
        "note batch 8 does not fit: a device needs 6.0 GB and has 4.0 GB; most of it: activations, 4.5 GB",
        "",
    ]
    assert "schedule batch time exposed per s memory" in told
    assert "best 8 250 ms 75.0 ms 4.32K 6 GB" in told
    assert told[-4:] == [
        "",
        "batch sequences at once, on all ranks; per s: tokens a second, all together",
        "exposed time in which a rank communicates and does not compute",
        "times exact",
    ]
    told = lines(serve_report.print_phases, serving("decode", rows[0], phase_row(2, GB, "there")))
    assert told[2] == "decode time per token after 100 + 7 (image) tokens"
    assert told[5] == ""
    assert "fabric schedule batch time exposed per s memory" in told
    assert "there best 2 250 ms 75.0 ms 4.32K 1 GB" in told
    found = serve_report.phase_values(serving("decode", rows[1]))
    assert found["tokens"] == {"all": 100, "image": 7}
    assert (found["phase"], found["ranks"], found["seconds"]) == ("decode", 3, {"total": 1.25})
    assert found["phases_simulated"] == [
        {
            "fabric": "here",
            "schedule": "best",
            "batch": 8,
            "time_s": 0.25,
            "exposed_s": 0.075,
            "tokens_per_s": 4321.0,
            "memory_bytes": 6 * GB,
        }
    ]
