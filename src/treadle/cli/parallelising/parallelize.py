"""``treadle parallelize``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, TimeLimitOption, late
from treadle.cli.parallelising.parallel_report import parallelize_values, print_parallelize
from treadle.cli.parallelising.plan_report import changes_values, print_changes, print_story, story_values
from treadle.cli.quantities import parse_seconds
from treadle.cli.status import INFEASIBLE, fail
from treadle.cli.step_options import AlphaOption, DeviceOption, EfficiencyOption, ForwardOption, named_fabrics
from treadle.errors import FormatError, InfeasibleError
from treadle.planning import ParallelizeKeywords, ParallelizeResult
from treadle.units import parse_size, parse_time_ns


def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A name (llama-3-8b), a Hugging Face config.json, or a graph that treadle capture wrote.",
        ),
    ],
    gpu: DeviceOption,
    fabric: Annotated[
        list[str] | None,
        typer.Option(
            "--fabric",
            help="What to train on; again for several: how the plan changes, and what each plan costs on the "
            "others; default that of treadle.toml.",
            metavar="FABRIC",
        ),
    ] = None,
    mesh: Annotated[
        str,
        typer.Option(
            help="Axes and ranks, the last the fastest, as 16,8 or dp=16,tp=8; an axis called pp makes "
            "pipeline stages; auto: look for the best.",
            metavar="MESH",
        ),
    ] = "auto",
    tokens: Annotated[
        str | None,
        typer.Option(help="Of a step, on all ranks together, as 1M; of a graph: its own.", metavar="N"),
    ] = None,
    sequence: Annotated[
        str | None,
        typer.Option(help="Tokens of a sequence; default what the model was made for.", metavar="N"),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="That a rank may use, as 72GB; default the GPU's.", metavar="SIZE")
    ] = None,
    schedule: Annotated[
        str,
        typer.Option(
            help="By which collectives are priced: treadle, ring, or bound (no schedule is quicker).",
            metavar="NAME",
        ),
    ] = "treadle",
    overlap: Annotated[
        str,
        typer.Option(
            help="Where communication hides behind computing: none, layer (in its own), model (anywhere: too "
            "good to be true where layers differ).",
            metavar="NAME",
        ),
    ] = "layer",
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Layers of a kind may take different plans.")
    ] = False,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            "--pin", help="Keep a parameter as wq=0|1: mesh axes by dimension, - for none; again for more."
        ),
    ] = None,
    micro_batches: Annotated[
        int | None,
        typer.Option(help="Of a pipeline; default four a stage.", metavar="N"),
    ] = None,
    gap: Annotated[
        float, typer.Option(help="Share of the time that need not be proven.", metavar="X")
    ] = planning.DEFAULT_GAP,
    efficiency: EfficiencyOption = None,
    memory_efficiency: Annotated[
        float, typer.Option(help="Share of its memory's bandwidth.", metavar="X")
    ] = 0.8,
    alpha: AlphaOption = None,
    forward: ForwardOption = False,
    explain: Annotated[
        list[str] | None,
        typer.Option(
            "--explain",
            help="States and collectives of a tensor through the step, and what other choices cost; again "
            "for more.",
            metavar="TENSOR",
        ),
    ] = None,
    diff: Annotated[
        Path | None,
        typer.Option(help="A plan of the same model: what differs, and what it costs.", metavar="FILE"),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the plan as JSON.", metavar="FILE", writable=True),
    ] = None,
    export: Annotated[
        list[Path] | None,
        typer.Option(
            "--export",
            help="Write the plan for others: .py: parallelize_module and fully_shard; .toml: torchtitan's "
            "settings; again for both.",
            metavar="FILE",
            writable=True,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Page with timeline, plans, collectives, memory, states: .html.",
            metavar="FILE",
            writable=True,
        ),
    ] = None,
    time_limit: TimeLimitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Find the best way to shard, recompute and pipeline a model, with a proven gap."""
    output = Output(json, quiet)
    _check_files(plan, export or [])
    if report is not None:
        planning.check_page_name(report, "--report FILE")
    fabrics = named_fabrics(fabric, "")
    options: ParallelizeKeywords = {
        "sequence": sequence,
        "memory_bytes": None if memory is None else parse_size(memory),
        "overlap": overlap,
        "pins": planning.read_pins(pin or []),
        "schedule": schedule,
        "micro_batches": micro_batches,
        "mixed": mixed,
        "gap": gap,
        "efficiency": efficiency,
        "memory_efficiency": memory_efficiency,
        "alpha_s": None if alpha is None else parse_time_ns(alpha) / 1e9,
        "forward": forward,
        "time_limit_s": None if time_limit is None else parse_seconds(time_limit),
    }
    with ProgressLine(quiet=output.is_silent) as progress:
        found = planning.parallelize(
            model, fabrics, mesh=mesh, gpu=gpu, tokens=tokens, progress=progress, **options
        )
        stories = [story for name in explain or [] for story in planning.explain_tensor(found, name)]
        changes = None if diff is None else planning.plan_changes(found, diff)
    if plan is not None:
        write_bytes(plan, planning.parallel_plan_text(found).encode())
    print_parallelize(output, found)
    for story in stories:
        print_story(output, story)
    if changes is not None:
        print_changes(output, changes)
    if plan is not None:
        output.line(f"written     {plan}")
    if report is not None:
        write_bytes(report, planning.report(found).encode())
        output.line(f"report      {report}")
    exported = _exports(output, found, export or [])
    values = parallelize_values(found) | ({} if plan is None else {"plan": str(plan)})
    if report is not None:
        values["report"] = str(report)
    if stories:
        values["explained"] = [story_values(story) for story in stories]
    if changes is not None:
        values["differences"] = changes_values(changes)
    if exported:
        values["exports"] = exported
    output.result(values)
    if any(one["file"] is None for one in exported):
        return fail("--export: what was searched for is found, but cannot be written so", INFEASIBLE)
    if time_limit is not None and any(search.is_late for search in found.searches):
        worst = max(search.gap for search in found.searches)
        return late(f"these are the best plans found, {worst:.1%} from the bound at most")
    return 0


def _check_files(plan: Path | None, exports: list[Path]) -> None:
    """Before a search of minutes: different files, of formats that there are."""
    for path in exports:
        if path.suffix.lower() not in (".py", ".toml"):
            raise FormatError(
                f"--export {path}: expected a name that ends with .py (PyTorch code) or .toml (torchtitan)"
            )
    places = [path.resolve() for path in (*exports, *([] if plan is None else [plan]))]
    if len(set(places)) < len(places):
        raise FormatError("--output and --export: expected different files")


def _exports(output: Output, found: ParallelizeResult, paths: list[Path]) -> list[dict[str, object]]:
    """Write texts for others; what they cannot say is told, which may be all of it."""
    written: list[dict[str, object]] = []
    for path in paths:
        try:
            text, lost = planning.exported_plan(found, path.suffix.lower())
        except InfeasibleError as error:
            output.line(f"not written {path}: {error}")
            written.append({"file": None, "not_said": [str(error)]})
            continue
        write_bytes(path, text.encode())
        output.line(f"written     {path}{': not said there:' if lost else ''}")
        for one in lost:
            output.line(f"            {one}")
        written.append({"file": str(path), "not_said": [str(one) for one in lost]})
    return written
