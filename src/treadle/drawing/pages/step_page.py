"""Simulated steps of training as a page: when what runs, where the time goes, what communication costs."""

from __future__ import annotations

from treadle.drawing.page import PageKind, page, table, text_columns
from treadle.drawing.pages.task_tracks import KIND_VALUES, task_tracks
from treadle.spelling import counted
from treadle.training.costs import format_traffic
from treadle.training.device_memory import missing_bytes
from treadle.training.forms.axes import AXIS_FORMS
from treadle.training.step import StepOutcome
from treadle.training.timeline.task import Category
from treadle.training.train_result import TrainResult, TrainRow
from treadle.units import format_seconds

_PARTS = [
    ["compute", "compute", "forward"],
    ["slower beside communication", "slower", "backward"],
    *(
        kind
        for kind, category in zip(KIND_VALUES, Category, strict=True)
        if category not in (Category.FORWARD, Category.RECOMPUTE, Category.BACKWARD, Category.OPTIMIZER)
    ),
    ["idle", "idle", "idle"],
]
"""Parts of a step's time: label, short label, style. Communication is the exposed part."""
_EXPOSED = [word for word, *_ in _PARTS[2:-1]]


def step_page(result: TrainResult) -> str:
    """Write the report of `treadle train --report`: one self-contained HTML file.

    Parameters
    ----------
    result : TrainResult
        Each row with its timeline.
    """
    names = _row_names(result.rows)
    first = result.rows[0]
    setup, rows = result.setup, list(zip(names, result.rows, strict=True))
    return page(
        {
            "title": f"A step of {result.model.name} on {setup.mesh.n_ranks} {setup.device.name}",
            "lede": f"{result.mesh.notation} on {', '.join(dict.fromkeys(row.fabric for row in result.rows))}"
            "; simulated, nothing is measured here",
            "tiles": _tiles(first, result),
            "lanes": {
                **task_tracks((name, row.outcome.timeline) for name, row in rows),
                "note": "Ranks of a program do the same at the same time: a device is a rank of a pipeline "
                "stage. Streams of a device that communicate run beside its computing.",
            },
            "left": [{"panel": "lanes"}, _where_time_goes(rows), _communications(rows)],
            "right": [
                {"panel": "facts", "title": "The step", "rows": _facts(result)},
                _rows(rows),
                _memory(first),
            ],
        },
        PageKind.STEP,
    )


def _tiles(row: TrainRow, result: TrainResult) -> list[list[str]]:
    found = row.outcome
    bounds = [one for one in result.rows if one.is_bound and one.fabric == row.fabric]
    tiles = [
        [format_seconds(float(found.iteration_s)), f"a step by {row.schedule}", ""],
        [f"{row.exposed_s / float(found.iteration_s):.1%}", "of it communication that nothing hides", ""],
        [f"{found.mfu:.1%}", "MFU: model FLOPs over the peak's", ""],
    ]
    if bounds and not row.is_bound:
        least = format_seconds(float(bounds[0].outcome.iteration_s))
        tiles.append([least, "no schedule of its communication is quicker", ""])
    return tiles


def _parts_of(outcome: StepOutcome) -> list[float]:
    """Return the seconds of each of `_PARTS`."""
    exposed = {category.value: float(seconds) for category, seconds in outcome.exposed_s.items()}
    parts = [outcome.compute_s, outcome.contention_s]
    parts += [*(exposed.get(word, 0.0) for word in _EXPOSED), outcome.idle_s]
    least = 1e-12 * float(outcome.iteration_s)  # what differences of floats leave
    return [float(part) if part > least else 0.0 for part in parts]


def _where_time_goes(rows: list[tuple[str, TrainRow]]) -> dict[str, object]:
    return {
        "panel": "bars",
        "id": "time",
        "title": "Where the time goes",
        "note": "a click shows the timeline; means over pipeline stages",
        "form": "s",
        "kinds": _PARTS,
        "rows": [[name, _parts_of(row.outcome)] for name, row in rows],
        "picks": "row",
    }


def _rows(rows: list[tuple[str, TrainRow]]) -> dict[str, object]:
    figures = [
        [name, float(one.iteration_s), row.exposed_s, one.mfu, round(one.tokens_per_s)]
        for name, row in rows
        for one in [row.outcome]
    ]
    columns = [*text_columns(""), ("step", "s"), ("exposed", "s"), ("MFU", "share"), ("per s", "n")]
    left_out = (
        "Exposed: a rank communicates and does not compute. Per s: tokens or samples, all ranks together."
    )
    return table("rows", "Fabrics and schedules", columns, figures, picks="row", left_out=left_out)


def _communications(rows: list[tuple[str, TrainRow]]) -> dict[str, object]:
    """Return the time of each kind of communication by each schedule, and its count on a rank of stage 0."""
    found = []
    for name, row in rows:
        counts: dict[str, list[float]] = {}
        for task in row.outcome.timeline.tasks:
            if task.traffic is not None and task.device == row.outcome.timeline.devices[0]:
                entry = counts.setdefault(format_traffic(task.traffic), [0, 0.0, 0.0])
                entry[0] += 1
                entry[1] += task.size_bytes
                entry[2] += float(task.seconds)
        for one in row.priced:
            words = format_traffic((one.kind, one.axes))
            count, size, seconds = counts.get(words, [0, 0.0, 0.0])
            found.append([name, words, count, size, seconds, float(one.algbw), one.delay_s])
    return table(
        "communication",
        "Communication",
        [
            *text_columns("by", "what"),
            *(("times", "n"), ("bytes", "B"), ("time", "s"), ("rate of large ones", "rate")),
            ("delay of small ones", "s"),
        ],
        found,
        note="of a rank of the first stage, hidden or not",
    )


def _memory(row: TrainRow) -> dict[str, object]:
    """Return the memory of a rank of the fullest stage, part by part, compared with its capacity."""
    parts = max(row.outcome.memory, key=lambda one: one.total_bytes)
    limit = row.outcome.setup.device.memory_bytes
    sizes = {**{name: size for name, size in parts.by_part.items() if size}, "all": parts.total_bytes}
    return table(
        "memory",
        "Memory of a rank",
        [*text_columns("part"), ("at its own peak", "B"), ("of the device", "share")],
        [[name, size, size / limit] for name, size in sizes.items()],
        left_out="Of the stage that needs most.",
    )


def _facts(result: TrainResult) -> list[list[str]]:
    setup, model = result.setup, result.model
    missing = missing_bytes(result.rows[0].outcome.memory, setup.device.memory_bytes)
    rows = [
        ["Model", f"{model.name}, {model.parameters / 1e9:.3g} billion parameters, {model.n_layers} layers"],
        ["Mesh", f"{result.mesh.notation}: {setup.mesh.n_ranks} {setup.device.name}, {setup.precision}"],
    ]
    for name, size in zip(result.mesh.axis_names, result.mesh.shape, strict=True):
        if size > 1:
            rows.append([name, AXIS_FORMS[name].words])
    what = "samples" if model.unit == "sample" else "sequences"
    rows.append(["Batch", f"{setup.sequences} {what}, {counted(setup.options.micro_batches, 'micro-batch')}"])
    rows.append(["Compute", setup.times.summary])
    rows.append(["Contention", f"{float(setup.options.kappa):g}: {result.contention.words}"])
    if result.network_words:
        rows.append(["Network", result.network_words])
    if result.calibration is not None:
        fit = result.calibration
        rows.append(["Fitted", f"efficiency {fit.efficiency:.4f}, so that {fit.row} is as measured"])
    rows += [[row.schedule, row.words] for row in {row.schedule: row for row in result.rows}.values()]
    rows += [["Times", words] for words in dict.fromkeys(w for row in result.rows for w in row.model_words)]
    rows += [["Does not fit", missing]] if missing else []
    return rows + [["Note", note] for note in result.notes]


def _row_names(rows: tuple[TrainRow, ...]) -> list[str]:
    """Return the schedules, with the fabric where there are several."""
    several = len({row.fabric for row in rows}) > 1
    return [f"{row.schedule} on {row.fabric}" if several else row.schedule for row in rows]
