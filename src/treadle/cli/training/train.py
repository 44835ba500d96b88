"""``treadle train``."""

from __future__ import annotations

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.cost_model_option import asked_cost_model
from treadle.cli.output import Output, ProgressLine
from treadle.cli.step_options import named_fabrics
from treadle.cli.training.serve_report import phase_values, print_phases
from treadle.cli.training.step_report import print_steps, step_values
from treadle.errors import FormatError
from treadle.options.rows import keywords, refuse
from treadle.options.training import Step, Train
from treadle.planning import TrainKeywords, TrainResult, TrainRow


def command(o: Train) -> int:
    """Simulate a step of training: its time, exposed communication and MFU, by fabric and schedule."""
    output = Output.of(o)
    fabrics = named_fabrics(o.fabric, " side by side")
    names = [part.strip() for text in o.schedule or ("treadle,ring,bound",) for part in text.split(",")]
    if o.trace is not None:
        planning.check_trace_name(o.trace)
    if o.picture is not None:
        planning.check_figure_name(o.picture)
    if o.report is not None:
        planning.check_page_name(o.report, "--report FILE")
    reason = f"is of training steps; --phase {o.phase} has rows by batch only"
    options: TrainKeywords = keywords(o, Step, but=("batch", "cost_model"))
    if o.cost_model is not None:
        options["cost_model"] = asked_cost_model(o.cost_model, o.alpha_s)
    if o.phase is not None:
        refuse(o, ("trace", "picture", "chakra", "report", "workload"), reason)
        with ProgressLine(quiet=output.is_silent) as progress:
            served = planning.serve(
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
        print_phases(output, served)
        output.result(phase_values(served), variant="phase")
        return 0
    if o.batch is not None:
        if len(o.batch) > 1:
            raise FormatError(f"--batch {','.join(map(str, o.batch))!r}: expected a whole number")
        options["batch"] = o.batch[0]
    with ProgressLine(quiet=output.is_silent) as progress:
        result = planning.train(
            o.model, fabrics, mesh=o.mesh, gpu=o.gpu, schedules=names, progress=progress, **options
        )
    written = _files(result, result.rows[0], o)
    if o.report is not None:
        write_bytes(o.report, planning.report(result).encode())
        written["report"] = str(o.report)
    print_steps(output, result)
    values = step_values(result) | written
    for name in ("trace", "picture", "chakra", "workload"):
        if name in values:
            row = result.rows[0]
            output.line(f"{name:<12}{values[name]}: {row.fabric}, {row.schedule}")
    if o.report is not None:
        output.line(f"report      {o.report}")
    output.result(values)
    return 0


def _files(result: TrainResult, row: TrainRow, o: Train) -> dict[str, object]:
    """Write what was asked for; paths as JSON has them."""
    given = {"trace": o.trace, "picture": o.picture, "workload": o.workload}
    places = [path.resolve() for path in given.values() if path is not None]
    if len(set(places)) < len(places):
        raise FormatError("--trace, --picture and --workload: expected different files")
    if o.trace is not None:
        planning.write_trace(o.trace, planning.step_trace_of(result, row))
    if o.picture is not None:
        image = planning.step_picture_of(result, row, file_format=o.picture.suffix[1:].lower())
        write_bytes(o.picture, image)
    if o.workload is not None:
        write_bytes(o.workload, planning.step_workload_of(result, row).encode())
    if o.chakra is not None:
        planning.write_step_chakra(o.chakra, result, row)
    return {
        **{name: str(path) for name, path in given.items() if path is not None},
        **({} if o.chakra is None else {"chakra": str(o.chakra)}),
    }
