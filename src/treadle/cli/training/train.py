"""``treadle train``."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.cost_model_option import given_cost_model
from treadle.cli.output import Output, ProgressLine
from treadle.cli.status import INFEASIBLE
from treadle.cli.step_options import named_fabrics
from treadle.errors import FormatError
from treadle.options.rows import keywords, reject
from treadle.options.training import Step, Train
from treadle.planning import TrainKeywords, TrainResult, TrainRow
from treadle.render.rows import file_row
from treadle.render.training import phase_rows, step_rows


def command(o: Train) -> int:
    """Simulate a step of training: its time, exposed communication and MFU, by fabric and schedule."""
    output = Output.of(o)
    fabrics = named_fabrics(o.fabric, " side by side")
    names = [part.strip() for text in o.schedule or ("treadle,ring,bound",) for part in text.split(",")]
    if o.trace is not None:
        planning.check_trace_name(o.trace)
    if o.picture is not None:
        planning.check_plot_name(o.picture)
    if o.report is not None:
        planning.check_page_name(o.report, "--report FILE")
    options: TrainKeywords = keywords(o, Step, but=("batch", "cost_model"))
    if o.cost_model is not None:
        options["cost_model"] = given_cost_model(o.cost_model, o.alpha_s)
    if o.phase is not None:
        reason = f"valid only for training steps; --phase {o.phase} has rows by batch only"
        reject(o, ("trace", "picture", "chakra", "report", "workload"), reason)
        with ProgressLine(quiet=output.is_silent) as progress:
            phase = planning.serve(
                o.model,
                fabrics,
                mesh=o.mesh,
                gpu=o.gpu,
                phase=o.phase,
                batches=o.batch or planning.DEFAULT_BATCHES,
                schedules=names,
                progress=progress,
                **options,
            )
        output.show(phase_rows(phase), variant="phase")
        return 0
    if o.batch is not None:
        if len(o.batch) > 1:
            raise FormatError(f"--batch {','.join(map(str, o.batch))!r}: expected an integer")
        options["batch"] = o.batch[0]
    with ProgressLine(quiet=output.is_silent) as progress:
        result = planning.train(
            o.model, fabrics, mesh=o.mesh, gpu=o.gpu, schedules=names, progress=progress, **options
        )
    first = result.rows[0]
    rows = [*step_rows(result)]
    for name, path in _files(result, first, o).items():
        rows.append(file_row(name, path, name, more=f": {first.fabric}, {first.schedule}"))
    if o.report is not None:
        write_bytes(o.report, planning.report(result).encode())
    rows.append(file_row("report", o.report, "report"))
    output.show(rows)
    return 0 if result.fits else INFEASIBLE


def _files(result: TrainResult, first: TrainRow, o: Train) -> dict[str, Path | None]:
    """Write the requested files; return their paths."""
    paths = [path.resolve() for path in (o.trace, o.picture, o.workload) if path is not None]
    if len(set(paths)) < len(paths):
        raise FormatError("--trace, --picture and --workload: expected different files")
    if o.trace is not None:
        planning.write_trace(o.trace, planning.step_trace_of(result, first))
    if o.picture is not None:
        image = planning.draw_step(result, first, file_format=o.picture.suffix[1:].lower())
        write_bytes(o.picture, image)
    if o.workload is not None:
        write_bytes(o.workload, planning.step_workload_of(result, first).encode())
    if o.chakra is not None:
        planning.write_step_chakra(o.chakra, result, first)
    return {"trace": o.trace, "picture": o.picture, "chakra": o.chakra, "workload": o.workload}
