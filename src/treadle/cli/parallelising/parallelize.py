"""``treadle parallelize``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import Output, ProgressLine, late
from treadle.cli.status import INFEASIBLE, fail
from treadle.cli.step_options import named_fabrics
from treadle.errors import FormatError, InfeasibleError
from treadle.options.parallelising import Parallelize, Sharding
from treadle.options.rows import keywords
from treadle.planning import ParallelizeKeywords, ParallelizeResult
from treadle.render.parallelism import parallelize_rows, plan_changes_rows, tensor_rows
from treadle.render.rows import Row, facts, file_row, row


def command(o: Parallelize) -> int:
    """Find the best way to shard, recompute and pipeline a model, with a proven gap."""
    output = Output.of(o)
    _check_files(o.output, o.export)
    if o.report is not None:
        planning.check_page_name(o.report, "--report FILE")
    fabrics = named_fabrics(o.fabric, "")
    options: ParallelizeKeywords = keywords(o, Sharding, but=("constraints",))
    options["constraints"] = planning.read_constraints(o.constraints)
    with ProgressLine(quiet=output.is_silent) as progress:
        found = planning.parallelize(
            o.model, fabrics, mesh=o.mesh, gpu=o.gpu, tokens=o.tokens, progress=progress, **options
        )
        tensors = [tensor for name in o.explain for tensor in planning.explain_tensor(found, name)]
        changes = None if o.diff is None else planning.plan_changes(found, o.diff)
    if o.output is not None:
        write_bytes(o.output, planning.explain_parallel_plan(found).encode())
    rows = [*parallelize_rows(found), *tensor_rows(tensors)]
    if changes is not None:
        rows += plan_changes_rows(changes)
    rows.append(file_row("written", o.output, "plan"))
    if o.report is not None:
        write_bytes(o.report, planning.report(found).encode())
    rows.append(file_row("report", o.report, "report"))
    exported: list[dict[str, object]] = []
    rows += [_export(found, path, exported) for path in o.export]
    output.show([*rows, facts(exports=exported or None)])
    if any(one["file"] is None for one in exported):
        return fail("--export: a plan was found, but this format cannot express it", INFEASIBLE)
    if o.time_limit_s is not None and any(search.is_late for search in found.searches):
        worst = max(search.gap for search in found.searches)
        return late(f"these are the best plans found, {worst:.1%} from the bound at most")
    return 0


def _check_files(plan: Path | None, exports: Sequence[Path]) -> None:
    """Before a search of minutes: different files, of formats that there are."""
    for path in exports:
        if path.suffix.lower() not in (".py", ".toml"):
            raise FormatError(
                f"--export {path}: expected a name that ends with .py (PyTorch code) or .toml (torchtitan)"
            )
    places = [path.resolve() for path in (*exports, *([] if plan is None else [plan]))]
    if len(set(places)) < len(places):
        raise FormatError("--output and --export: expected different files")


def _export(found: ParallelizeResult, path: Path, exported: list[dict[str, object]]) -> Row:
    """Write a file for another program; what its format cannot express is reported."""
    try:
        text, lost = planning.exported_plan(found, path.suffix.lower())
    except InfeasibleError as error:
        exported.append({"file": None, "not_said": [str(error)]})
        return row("not written", f"{path}: {error}")
    write_bytes(path, text.encode())
    missing = [str(one) for one in lost]
    exported.append({"file": str(path), "not_said": missing})
    return row("written", "\n".join([f"{path}{', which cannot express:' if lost else ''}", *missing]))
