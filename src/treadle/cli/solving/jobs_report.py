"""What ``bound`` and ``solve`` say of different collectives at once (``--jobs FILE``)."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from pathlib import Path

from treadle import planning
from treadle.cli.output import Output, ProgressLine, late, warn
from treadle.cli.quantities import counted
from treadle.cli.solving.report import print_seconds
from treadle.cli.status import FAILED
from treadle.errors import FormatError
from treadle.options.rows import keywords
from treadle.options.shared import Problem, TimeLimit
from treadle.options.solving import Bound, Solve
from treadle.planning.together.jobs_folder import save_jobs
from treadle.planning.together.solve_jobs import MODEL, JobsResult
from treadle.units import format_share

_SHOWN = 20
"""Most jobs in the table; --json has all."""


OF_JOBS = ("collective", *Problem.rows)
"""Options that a file of jobs has for each."""
BESIDE_JOBS = "beside --jobs the file says that of each job"


def bound_jobs(output: Output, o: Bound) -> int:
    """``bound --jobs``."""
    assert o.jobs is not None
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            result = planning.bound_jobs(o.topology, o.jobs, progress=progress, **keywords(o, TimeLimit))
    except planning.TimeLimitError:
        return late("the rates are not known; allow more time (--time-limit)")
    report_jobs(output, result)
    return 0


def solve_jobs(output: Output, o: Solve) -> int:
    """``solve --jobs``."""
    folder = o.output
    assert o.jobs is not None
    if folder is not None and folder.exists() and not folder.is_dir():
        raise FormatError(f"-o {folder}: is a file; plans of jobs are written into a folder")
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            result = planning.solve_jobs(
                o.topology,
                o.jobs,
                max_trees=o.max_trees,
                exact=o.exact,
                progress=progress,
                **keywords(o, TimeLimit),
            )
    except planning.TimeLimitError:
        return late("there are no plans; allow more time (--time-limit)")
    except planning.RejectedError as error:
        warn(str(error))
        return FAILED
    report_jobs(output, result, folder)
    return 0


def report_jobs(output: Output, result: JobsResult, folder: Path | None = None) -> None:
    """Print what the jobs get, and write their plans if there are any."""
    fabric = result.topology
    output.line(
        f"fabric      {fabric.name}: {counted(len(fabric.compute_nodes), 'compute node')}, "
        f"{counted(len(fabric.switches), 'switch')}, {counted(fabric.n_links, 'link')}"
    )
    output.line(f"jobs        {len(result.jobs)} at once; {MODEL}")
    rates = output.rates
    rows = [
        [
            job.name,
            job.collective.kind.value,
            str(job.collective.n_ranks),
            _weight(job.weight),
            rates(alone),
            rates(together),
            f"{float(together / alone):.3g}",
        ]
        for job, alone, together in zip(result.jobs, result.alone, result.together, strict=True)
    ]
    output.table(
        ["job", "collective", "ranks", "weight", "alone", "together", "share"],
        rows[:_SHOWN],
        left=2,
        least=("weight", "share"),
    )
    if len(rows) > _SHOWN:
        output.line(f"            and {counted(len(rows) - _SHOWN, 'job')} more; --json has all")
    most = max(job.weight for job in result.jobs)
    output.line(f"common      {rates(result.common_rate * most)} for the largest weight, exact")
    if result.loss:
        taken, needed = _count(max(result.grids)), _count(max(result.exact_grids))
        output.line(
            f"rounded     {format_share(result.loss)} below the optimum: up to {taken} trees per root or "
            f"chunks per unit of demand, the optimum takes {needed}"
        )
    for number, level in enumerate(result.levels):
        links = [fabric.link_name(link) for link, length in enumerate(level.lengths) if length]
        shown = ", ".join(links[:3]) + (f" and {len(links) - 3} more" if len(links) > 3 else "")
        limited = ", ".join(result.jobs[job].name for job in level.limited[:3])
        limited += f" and {len(level.limited) - 3} more" if len(level.limited) > 3 else ""
        output.line(f"{'limits' if not number else '      '}      {limited}: by {shown}")
    if result.report is not None:
        best = "; no rates are fairer" if result.report.is_max_min else ""
        output.line(f"verified    yes: every plan, and the loads of all together{best}")
    print_seconds(output, result.seconds)
    if folder is not None:
        written = save_jobs(folder, result)
        output.line(f"plans       {folder}: {counted(len(result.plans), 'plan')} and {written[-1].name}")
    output.result(jobs_summary(result) | ({} if folder is None else {"plan": str(folder)}), variant="jobs")


def _weight(weight: Fraction) -> str:
    return str(weight) if weight.denominator == 1 and weight < 10**6 else f"{float(weight):.4g}"


def _count(trees: Fraction) -> str:
    """Trees per root; fewer than ranks are no whole number."""
    return str(ceil(trees)) if trees < 10**9 else f"{float(trees):.2g}"


def jobs_summary(result: JobsResult) -> dict[str, object]:
    """What ``--json`` prints."""
    return {
        "topology": result.topology.name,
        "model": MODEL,
        "common_rate_exact": _exact(result.common_rate),
        "jobs": [
            {
                "name": job.name,
                "collective": job.collective.kind.value,
                "ranks": job.collective.n_ranks,
                "weight_exact": _exact(job.weight),
                "alone_bytes_per_s": float(alone),
                "alone_exact": _exact(alone),
                "together_bytes_per_s": float(together),
                "together_exact": _exact(together),
                **planned,
            }
            for job, alone, together, planned in zip(
                result.jobs, result.alone, result.together, _planned(result), strict=True
            )
        ],
        "levels": [
            {
                "rate_exact": _exact(level.rate),
                "limited": [result.jobs[job].name for job in level.limited],
                "links": [
                    result.topology.link_name(link) for link, length in enumerate(level.lengths) if length
                ],
            }
            for level in result.levels
        ],
        "seconds": dict(result.seconds),
        **(
            {}
            if result.report is None
            else {
                "verified": result.report.report.is_ok,
                "optimal": result.report.is_max_min,
                "gap": float(result.loss),
            }
        ),
    }


def _planned(result: JobsResult) -> list[dict[str, object]]:
    """What the plan of each job reaches, and of how many trees or chunks; nothing of a bound."""
    if not result.plans:
        return [{} for _ in result.jobs]
    return [
        {
            "reached_bytes_per_s": float(rate),
            "reached_exact": _exact(rate),
            "trees_per_root_exact": _exact(grid),
        }
        for rate, grid in zip(result.reached, result.grids, strict=True)
    ]


def _exact(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"
