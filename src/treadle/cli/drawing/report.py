"""``treadle report``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, warn
from treadle.cli.plan_file import MaxMemoryOption, read_plan
from treadle.cli.quantities import Rates
from treadle.cli.status import FAILED
from treadle.errors import FormatError


def command(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN", help="A plan that solve wrote, or parallelize (JSON).")
    ],
    others: Annotated[
        list[Path] | None, typer.Argument(metavar="OTHER", help="Plans whose times by size stand beside.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The page: .html.", metavar="FILE", writable=True)
    ] = None,
    size: Annotated[
        str, typer.Option(help="Of the pictures over time.", metavar="SIZE")
    ] = planning.SHOWN_SIZE,
    fabric: Annotated[
        str | None,
        typer.Option(
            help="Of a plan of parallelize: what to time it on; default as in its file.", metavar="FABRIC"
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu", help="Of a plan of parallelize: h100, ..., or a TOML file; default as in its file."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Of a plan of parallelize: config.json or graph that it was made for; default by its name.",
            metavar="FILE",
        ),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(help="Of a plan of parallelize; default as in its file.", metavar="N")
    ] = None,
    sequence: Annotated[
        str | None, typer.Option(help="Of a plan of parallelize; default as in its file.", metavar="N")
    ] = None,
    max_memory: MaxMemoryOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a page about a plan, to look at in a browser: what it does and why it cannot be faster."""
    told = Output(json, quiet, Rates(""))
    planning.check_page_name(output, "-o FILE")
    assert output is not None
    with ProgressLine(quiet=quiet or json) as progress:
        if planning.is_parallel_plan(plan):
            asked = _Asked(fabric, gpu, model, tokens, sequence)
            page = _parallel_page(plan, others or [], asked, progress)
        else:
            plans = [read_plan(path, max_memory) for path in (plan, *(others or []))]
            _refuse(
                {
                    "--fabric": fabric,
                    "--gpu": gpu,
                    "--model": model,
                    "--tokens": tokens,
                    "--sequence": sequence,
                }
            )
            try:
                page = planning.report(plans[0], plans[1:], size=size, progress=progress)
            except planning.UnverifiedPlanError as error:
                warn(f"report: {error}")
                return FAILED
    data = page.encode()
    write_bytes(output, data)
    told.line(f"page        {output}, {len(data):,} bytes")
    told.result({"page": str(output), "bytes": len(data)})
    return 0


class _Asked(NamedTuple):
    """What a plan of parallelize is timed on."""

    fabric: str | None
    gpu: str | None
    model: str | None
    tokens: str | None
    sequence: str | None


def _parallel_page(
    plan: Path, others: Sequence[Path], asked: _Asked, progress: Callable[[str, int, int], None]
) -> str:
    if others:
        raise FormatError("shards a model: no other plans stand beside it", source=str(plan))
    return planning.report_parallel_plan(
        plan,
        asked.fabric,
        gpu=asked.gpu,
        model=asked.model,
        tokens=asked.tokens,
        sequence=asked.sequence,
        progress=progress,
    )


def _refuse(given: Mapping[str, str | None]) -> None:
    """FormatError for options of plans that shard models."""
    for option, value in given.items():
        if value is not None:
            raise FormatError(f"{option} is of plans that parallelize wrote (JSON); leave it out")
