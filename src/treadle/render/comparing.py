"""View of ``compare``: one table, in which schedules with equal values share a row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from operator import truediv
from string import ascii_lowercase
from typing import TYPE_CHECKING

from treadle.inputs.problem import format_exact
from treadle.render.problems import (
    SHOWN_VIOLATIONS,
    below,
    both_values,
    bound_rows,
    expectation_rows,
    library_rows,
    problem_rows,
    simulated_values,
    throughput,
    verification_values,
    verified_row,
)
from treadle.render.quantities import AS_THEY_COME, Rates, busbw, counted, microseconds, percent
from treadle.render.rows import (
    Row,
    Rows,
    Table,
    facts,
    file_row,
    labelled,
    rate_values,
    row,
)
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.scheduler_options import flag_of
from treadle.units import format_size

if TYPE_CHECKING:
    from treadle.schedulers.comparison import Comparison, ComparisonRow, RowMeasures
    from treadle.schedulers.third_party.placed_schedules import PlacedSchedule
    from treadle.simulation.simulated_plans import SimulatedRow
    from treadle.synthesis.result import Bound
    from treadle.synthesis.scheduler import Scheduler

Shown = tuple[str, "ComparisonRow"]
"""A schedule by its name."""
Line = list[Shown]
Lines = dict[tuple[tuple[str, ...], str], Line]
"""Equal schedules by their cells, and by name where a line is to stay apart."""

IN_NETWORK = "nvls (in-network)"
_IN_TURN = "step by\nstep"
_BEST = 5
"""Lines of the best schedules that are shown, and of the best baselines."""
_WIDE, _ABREAST = 3, 5
"""More sizes than this have tables of their own, with this many columns."""
_LONGEST_NAME = 25
"""Characters up to which the names of equal schedules are all in the table."""


def compare_rows(
    result: Comparison,
    rates: Rates = AS_THEY_COME,
    *,
    mesh: str | None = None,
    axes: str | None = None,
    picture: object = None,
    shows_all: bool = False,
) -> Rows:
    """Problem, optimum, the table, and what its columns and names mean.

    Without `shows_all` the table has the best schedules, the best baselines, the fastest of each size, and
    those that are `always_shown`.
    """
    topology, collective, bound, model = result.topology, result.collective, result.bound, result.cost_model
    yield from problem_rows(topology, collective, mesh, axes)
    yield from bound_rows(topology, collective, bound, rates, result.shared)
    if result.sizes and model is not None:
        yield row("cost model", model.name, cost_model=model.name, cost_model_source=model.source)
    yield row(None, "")
    shown = [(_name(one), one) for one in result.rows if not one.refusal]
    if result.in_network is not None:
        shown.insert(0, (IN_NETWORK, result.in_network.row))
    sizes = result.sizes if len(result.sizes) <= _WIDE else ()
    if known := [one.rate for _, one in shown if one.rate is not None]:
        rates = Rates(rates(busbw(max(known), collective)).split()[1])  # one unit for the column
    reports, lines, named = [one.report for _, one in shown], Lines(), list[tuple[str, str]]()
    has_steps = any(one is not None and one.pipelined_algbw not in (None, one.algbw) for one in reports)
    for name, one in shown:
        cells = _speed_cells(result, name, one, sizes, rates, has_steps=has_steps)
        # what a library runs is to be found at a glance
        own = name if one.always_shown and one.is_peer else ""
        lines.setdefault((cells, own), []).append((name, one))
    hidden = [] if shows_all else _less_good(lines.values(), shown)
    best = {key: line for key, line in lines.items() if line not in hidden}
    yield from (_table(result, best, sizes, rates, named), row(None, ""))
    if len(result.sizes) > _WIDE:
        yield from _time_tables(result, shown, named, shows_all=shows_all)
    yield from (row(letter, names) for letter, names in named)
    rest = [name for line in hidden for name, _ in line]
    yield row("not shown", f"{', '.join(rest)} (--all shows them)" if rest else None)
    yield from _legend(result, shown, sizes, rates, shows_all=shows_all)
    yield from _library_rows(result, shown, rates)
    yield facts(schedules=[_values(bound, collective, one) for one in result.rows])
    yield file_row("plot", picture, "picture")


def _library_rows(result: Comparison, shown: Sequence[Shown], rates: Rates) -> Rows:
    """Rows of NCCL's or RCCL's choice by its own model, and its simulated time at sizes."""
    from treadle.schedulers.third_party.library_schedules import SCHEDULER_OF

    if not result.sizes:
        yield from expectation_rows(result.topology, result.collective, rates, nvls=False)
        return
    times = {
        (IN_NETWORK if name == IN_NETWORK else one.algorithm, found.size_bytes): float(found.time)
        for name, one in shown
        for found in (() if one.measured is None else one.measured.sizes)
    }
    picked = {algorithm: (name, IN_NETWORK) for algorithm, name in SCHEDULER_OF.items()}

    def simulated(algorithm: str, size: int) -> float | None:
        names = picked.get(algorithm, ())[: 2 if algorithm == "nvls" else 1]
        return next((times[name, size] for name in names if (name, size) in times), None)

    model = "" if result.cost_model is None else result.cost_model.name
    yield from library_rows(result.topology, result.collective, result.sizes, simulated, model)


def _name(one: ComparisonRow) -> str:
    """A scheduler's name, or a file's and its format."""
    what = one.form or ("third-party" if one.is_peer else "")
    return f"{one.algorithm} ({what})" if what else one.algorithm


def _less_good(lines: Iterable[Line], shown: Sequence[Shown]) -> list[Line]:
    """Return lines, given best first, that are neither best, best baseline nor fastest at a size."""
    plain = [line for line in lines if all(one.rate is not None and not one.always_shown for _, one in line)]
    baselines = [line for line in plain if any(one.is_baseline for _, one in line)]
    kept = {name for line in (*plain[:_BEST], *baselines[:_BEST]) for name, _ in line}
    times = [[(at.time, name) for at in own] for name, own in _timed(shown) if name != IN_NETWORK]
    kept |= {min(column)[1] for column in zip(*times, strict=True)}
    return [line for line in plain if not any(name in kept for name, _ in line)]


def _timed(shown: Sequence[Shown]) -> list[tuple[str, tuple[SimulatedRow, ...]]]:
    """Schedules that were simulated."""
    return [(name, one.measured.sizes) for name, one in shown if one.measured and one.measured.sizes]


def _table(
    result: Comparison, lines: Lines, sizes: Sequence[int], rates: Rates, named: list[tuple[str, str]]
) -> Table:
    """The table; long lists of equal schedules are added to `named`."""
    alltoall = result.collective.kind is CollectiveKind.ALLTOALL
    has_steps = any(len(cells) > 2 + 2 * len(sizes) for cells, _ in lines)
    headings = ["\nalgorithm", f"busbw\n{rates.column}", "\n% opt", *[_IN_TURN] * has_steps]
    for size in sizes:
        headings += [f"{format_size(size)}\nus", f"{format_size(size)}\n% bound"]
    headings += ["\nsteps"] if alltoall else ["\ntrees", "\nheight"]
    cells = []
    for (values, _), line in lines.items():
        title = _title([name for name, _ in line], named)
        cells.append([title, *values, *_shape_cells(line, alltoall=alltoall)])
    return Table(headings, cells, 1, [one for one in ("\ntrees", _IN_TURN) if one in headings])


def _title(names: Sequence[str], named: list[tuple[str, str]]) -> str:
    """The names of equal schedules; long ones become a symbol, which is added to `named`."""
    title = ", ".join(names)
    if len(title) <= _LONGEST_NAME or len(names) == 1:
        return title
    letter = ascii_lowercase[len(named) % 26] * (1 + len(named) // 26)
    named.append((letter, ", ".join(names[1:])))
    others = f"{len(names) - 1} others, " if len(names) > 2 else ""
    return f"{names[0]} (= {others}{letter})"


def _speed_cells(
    result: Comparison,
    name: str,
    one: ComparisonRow,
    sizes: Sequence[int],
    rates: Rates,
    *,
    has_steps: bool,
) -> tuple[str, ...]:
    def scaled(algbw: Fraction) -> str:
        return rates.number(float(busbw(algbw, result.collective)), 2)

    cells, in_turn = ["NO" if one.rate is None else "-", "-"], "-"
    if one.rate is not None:
        is_set = len(one.rates) > 1
        own = name != IN_NETWORK and not is_set  # the former has an optimum of its own
        cells = [f"{scaled(min(one.rates))}-{scaled(max(one.rates))}" if is_set else scaled(one.rate)]
        cells.append(percent(one.rate / result.bound.algbw if own else None) or "-")
        if one.report is not None and one.report.pipelined_algbw is not None and one.algbw and not is_set:
            in_turn = scaled(one.algbw)
    cells += [in_turn] * has_steps
    timed = {} if one.measured is None else {found.size_bytes: found for found in one.measured.sizes}
    for size in sizes:
        found = timed.get(size)
        share = None if found is None or name == IN_NETWORK else found.efficiency
        cells.append("-" if found is None else microseconds(float(found.time)))
        cells.append(percent(share) or "-")
    return tuple(cells)


def _shape_cells(line: Line, *, alltoall: bool) -> list[str]:
    """Trees and heights, or steps, of schedules that are equally fast; numbers as a range."""
    found: tuple[list[str], list[str]] = ([], [])
    for _, one in line:
        report = one.report
        assert report is not None
        steps = None if report.n_steps is None or one.algbw is None else report.n_steps
        height = None if one.algbw is None else report.height_max
        if alltoall:
            found[1].append(str(steps or ("-" if one.form else "routes")))
        else:
            found[0].append(str(one.trees or "-"))
            found[1].append(f"{steps} steps" if steps is not None else str(height or "-"))
    cells = []
    for column in found[alltoall:]:
        different = sorted({*column} - {"-"}, key=lambda value: (len(value), value))
        numbers = [value for value in different if value.isdigit()]
        span = ["-".join(dict.fromkeys((numbers[0], numbers[-1])))] if numbers else []
        cells.append(", ".join([*span, *(value for value in different if value not in numbers)]) or "-")
    return cells


def _legend(
    result: Comparison, shown: Sequence[Shown], sizes: Sequence[int], rates: Rates, *, shows_all: bool
) -> Iterator[Row]:
    """Explanation of columns and marks, what was verified, and what could not be run."""
    yield row("% opt", "share of the optimum at large sizes, messages cut into slices")
    if any(one.report and one.report.pipelined_algbw not in (None, one.report.algbw) for _, one in shown):
        yield row("", "step by step: busbw if each step waits for the one before")
    if sizes:
        yield row("% bound", "lower bound on the time at this size over the simulated time")
    if (found := result.in_network) is not None:
        best = both_values(found.bound.algbw, result.collective, "optimal_") | {"model": found.bound.model}
        assert found.row.algbw is not None
        yield row(
            "nvls",
            f"on NVSwitches that reduce in the network (NVLink SHARP), which this topology does not state; "
            f"{float(found.row.algbw / found.bound.algbw):.1%} of the optimum there, "
            f"{rates(found.bound.algbw)}; "
            f"state it as in 'dgx_h100(1, nvls=True)'",
            in_network={**best, "schedule": _values(found.bound, result.collective, found.row)},
        )
    if library := next((one.algorithm for _, one in shown if one.algorithm in ("nccl", "rccl")), None):
        yield row(library, "in the table: its rings or trees on nominal links, without NVLink SHARP")
    wrong = [(name, one.report) for name, one in shown if one.report is not None and not one.report.is_ok]
    if len(wrong) < len(shown):
        yield row("verified", f"{'all ' if not wrong else ''}{counted(len(shown) - len(wrong), 'schedule')}")
    for name, report in wrong:
        yield row("verified", f"NO: {name}, {counted(report.n_violations, 'violation')}")
    for one in result.rows:
        yield from _file_rows(one)
    skipped: dict[str, list[str]] = defaultdict(list)
    for one in result.rows:
        if one.refusal:
            says_why = shows_all or one.always_shown or one.is_late
            reason = (
                f": {one.refusal.removeprefix(f'{one.algorithm}: ')}" if says_why else " (--all says why)"
            )
            skipped[reason].append(one.algorithm)
    texts = [f"{', '.join(names)}{reason}" for reason, names in skipped.items()]
    yield row("not run", "\n".join(texts) or None)
    untimed = [one for one in result.rows if one.measured is not None and one.measured.refusal]
    texts = [f"{one.algorithm}: {one.measured.refusal}" for one in untimed if one.measured is not None]
    yield row("no times", "\n".join(texts) or None)


def _file_rows(one: ComparisonRow) -> Iterator[Row]:
    """Violations and notes of a file that was given."""
    if one.form and one.report is not None:
        # here, because few comparisons have files
        from treadle.schedulers.third_party.placed_schedules import format_violations

        texts = [format_violations(violation) for violation in one.report.violations[:SHOWN_VIOLATIONS]]
        more = one.report.n_violations - SHOWN_VIOLATIONS
        texts += [f"and {counted(more, 'more violation')} (see --json)"] if more > 0 else []
        if texts:
            yield row("violations", f"{one.algorithm}: " + "\n".join(texts))
        yield from labelled("note", (f"{one.algorithm}: {note}" for note in one.notes))


def _time_tables(
    result: Comparison, shown: Sequence[Shown], named: list[tuple[str, str]], *, shows_all: bool
) -> Rows:
    """Simulated times of many sizes, in tables below each other."""
    timed, rows = dict(_timed(shown)), dict(shown)
    if not timed:
        return
    lines: dict[tuple[float, ...], Line] = defaultdict(list)
    for name, own in timed.items():
        lines[tuple(float(at.time) for at in own)].append((name, rows[name]))
    least = [min(column) for column in zip(*lines, strict=True)]
    by_loss = sorted(lines, key=lambda own: sum(map(truediv, own, least)))
    hidden = [] if shows_all else _less_good([lines[own] for own in by_loss], shown)
    titles = {
        own: _title([name for name, _ in line], named) for own, line in lines.items() if line not in hidden
    }
    bounds = [one.bound for one in next(iter(timed.values()))]
    for first in range(0, len(result.sizes), _ABREAST):
        at = range(first, min(first + _ABREAST, len(result.sizes)))
        cells = [
            [title, *(f"{own[k] * 1e6:.4g}{'*' * (own[k] <= least[k])}" for k in at)]
            for own, title in titles.items()
        ]
        limits = ["" if (limit := bounds[k]) is None else f"{float(limit.time) * 1e6:.4g}" for k in at]
        cells += [["lower bound", *limits]] if any(limits) else []
        yield Table(["simulated us", *(format_size(result.sizes[k]) for k in at)], cells, 1)
        yield row(None, "")
    yield row(None, "In the tables of times * marks the fastest schedule at a size.")


def _values(bound: Bound, collective: Collective, one: ComparisonRow) -> dict[str, object]:
    """A schedule for JSON."""
    found: dict[str, object] = {"algorithm": one.algorithm, "seconds": {"total": one.seconds}}
    if one.form:
        found |= {"form": one.form, **({"notes": list(one.notes)} if one.notes else {})}
    found |= {"peer": True} if one.is_peer else {}
    found |= {} if one.measured is None else _measured_values(one.measured)
    if one.report is None:
        return {**found, "refusal": one.refusal}
    if one.algbw is not None and one.rate is not None:
        found |= {
            **both_values(one.algbw, collective),
            **rate_values("pipelined_algbw", one.report.pipelined_algbw),
            "gap": float(1 - one.rate / bound.algbw),
            "optimal": one.report.is_optimal or (False if bound.is_tight else None),
        }
    return {**found, **({} if one.trees is None else {"trees": one.trees}), **verification_values(one.report)}


def _measured_values(found: RowMeasures) -> dict[str, object]:
    """Links that a schedule keeps busy longest, and its times at sizes."""
    values: dict[str, object] = {"not_simulated": found.refusal} if found.refusal else {}
    if (worst := found.congestion) is not None:
        values |= {"busiest_links": list(worst.links), "n_busiest_links": worst.n_links}
        values["busiest_times_optimum"] = format_exact(worst.times_optimum)
    return {**values, "sizes": [simulated_values(one) for one in found.sizes]} if found.sizes else values


def placed_rows(placed: PlacedSchedule, path: object, rates: Rates) -> Iterator[Row]:
    """View of ``verify --topology`` of a runtime file on a fabric."""
    from treadle.simulation.congestion import congestion

    yield from problem_rows(placed.topology, placed.collective)
    best, report = placed.optimal_algbw, placed.report
    yield row("file", f"{path}: {placed.form}; ranks are assigned to nodes by number", format=placed.form)
    if report.is_ok and best is not None:
        worst = congestion(placed.topology, placed.program, best)
        yield row("optimum", rates.both(best, placed.collective))
        yield Row(
            "schedule",
            f"{rates.both(placed.algbw, placed.collective)}, {below(placed.algbw, best)}",
            {**throughput(placed), "gap": float(1 - placed.algbw / best)},
        )
        more = f" and {worst.n_links - len(worst.links)} more" if worst.n_links > len(worst.links) else ""
        found = {"busiest_links": list(worst.links), "n_busiest_links": worst.n_links}
        yield Row("bottleneck", f"{', '.join(worst.links)}{more}", found)
    done = report.is_ok and placed.messages is not None
    text = "yes: executed on integer contributions, and every message has a path"
    yield Row("verified", text if done else verified_row(report).text, verification_values(report))
    yield from labelled("note", placed.notes)
    yield facts(notes=list(placed.notes), path=str(path))


# ``algorithms``


def schedulers_rows(shown: Iterable[Scheduler], helps: Mapping[str, str] | None = None) -> Iterator[Row]:
    """Schedulers with their requirements and options; `helps` explains options by flag."""
    shown = tuple(shown)
    values = [
        {
            "name": one.name,
            "form": one.form.value,
            "collectives": [kind.value for kind in one.collectives],
            "needs": list(one.format_requirements),
            "options": list(one.supported_options),
            "flags": [flag_of(option) for option in one.supported_options],
            "comparing": one.comparing.value,
            "peer": one.is_peer,
            "groups": one.in_groups,
            "source": one.source,
            "origin": one.origin,
        }
        for one in shown
    ]
    yield facts(schedulers=values)
    for one in shown:
        flags = [flag_of(option) for option in one.supported_options]
        yield row(None, f"{one.name} ({one.form}{', peer' if one.is_peer else ''})")
        for heading, text in (
            ("supports", ", ".join(one.collectives)),
            ("requires", ", ".join(one.format_requirements)),
            ("groups", "also several concurrent ones" if one.in_groups else ""),
            ("options", ", ".join(flags) if helps is None else ""),
            ("compared", one.comparing.value if one.comparing.value != "always" else ""),
            ("source", one.source),
            ("origin", one.origin),
        ):
            if text:
                yield row(None, f"  {heading:<8} {text}")
        if flags and helps is not None:
            yield row(None, "options of solve that it accepts")
            for flag in flags:
                yield row(None, f"  {helps.get(flag, flag)}")
