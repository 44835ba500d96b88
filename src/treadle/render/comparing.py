"""What ``compare`` reports: one table with a row for all schedules whose values are equal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_lowercase
from typing import TYPE_CHECKING

from treadle.inputs.problem import exact_text
from treadle.render.expectations import expectation_rows, library_rows
from treadle.render.problems import (
    SHOWN_VIOLATIONS,
    below,
    both_values,
    bound_rows,
    problem_rows,
    throughput,
    verification_values,
    verified_row,
)
from treadle.render.quantities import AS_THEY_COME, Rates, busbw, counted, microseconds
from treadle.render.rows import Row, Table, facts, fields_of, given, row
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.problem_bounds import size_bound_values
from treadle.synthesis.scheduler_options import flag_of
from treadle.units import format_size

if TYPE_CHECKING:
    from treadle.schedulers.comparison import Comparison, ComparisonRow, RowMeasures
    from treadle.schedulers.third_party.placed_schedules import PlacedSchedule
    from treadle.synthesis.result import Bound
    from treadle.synthesis.scheduler import Scheduler

IN_NETWORK = "nvls (in-network)"
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
) -> Iterator[Row | Table]:
    """Problem, optimum, the table, and what its columns and names mean."""
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
    if known := [one.algbw for _, one in shown if one.algbw is not None]:
        rates = Rates(rates(busbw(max(known), collective)).split()[1])  # one unit for the column
    yield from _table(result, shown, sizes, rates)
    if len(result.sizes) > _WIDE:
        yield from _time_tables(result, shown)
    yield from _legend(result, shown, sizes, rates)
    yield from _library_rows(result, shown, rates)
    yield facts(schedules=[_values(bound, collective, one) for one in result.rows])
    yield row("plot", None if picture is None else str(picture), picture=picture and str(picture))


def _library_rows(
    result: Comparison, shown: Sequence[tuple[str, ComparisonRow]], rates: Rates
) -> Iterator[Row | Table]:
    """What NCCL or RCCL runs, by its own model, and at sizes what Treadle's simulation of that takes."""
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

    yield from library_rows(result.topology, result.collective, result.sizes, simulated)


def _name(one: ComparisonRow) -> str:
    """A scheduler's name, or a file's and its format."""
    what = one.form or ("third-party" if one.is_peer else "")
    return f"{one.algorithm} ({what})" if what else one.algorithm


def _table(
    result: Comparison, shown: Sequence[tuple[str, ComparisonRow]], sizes: Sequence[int], rates: Rates
) -> Iterator[Row | Table]:
    """The table, with equal rows merged, and the names of those."""
    alltoall = result.collective.kind is CollectiveKind.ALLTOALL
    is_loaded = any(one.measured is not None and one.measured.congestion is not None for _, one in shown)
    headings = ["\nalgorithm", f"busbw\n{rates.column}", "\n% opt", *["link\nload"] * is_loaded]
    for size in sizes:
        headings += [f"{format_size(size)}\nus", f"{format_size(size)}\n% bound"]
    headings += ["\nsteps"] if alltoall else ["\ntrees", "\nheight"]
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, one in shown:
        alike[_cells(result, name, one, sizes, rates, is_loaded=is_loaded)].append(name)
    cells, named = [], list[tuple[str, str]]()
    for values, names in alike.items():
        title = ", ".join(names)
        if len(title) > _LONGEST_NAME and len(names) > 1:
            letter = ascii_lowercase[len(named) % 26] * (1 + len(named) // 26)
            named.append((letter, ", ".join(names[1:])))
            others = f"{len(names) - 1} others, " if len(names) > 2 else ""
            title = f"{names[0]} (= {others}{letter})"
        cells.append([title, *values])
    yield Table(headings, cells, 1, [heading for heading in headings if heading.endswith(("trees", "load"))])
    yield row(None, "")
    yield from (row(letter, names) for letter, names in named)


def _cells(
    result: Comparison,
    name: str,
    one: ComparisonRow,
    sizes: Sequence[int],
    rates: Rates,
    *,
    is_loaded: bool,
) -> tuple[str, ...]:
    report, measured = one.report, one.measured
    assert report is not None
    cells = ["NO" if one.algbw is None else "-", "-"]
    if one.algbw is not None:
        own = name != IN_NETWORK  # that row has an optimum of its own
        star = "*" if _is_stepped(result, one) else ""
        cells = [f"{rates.number(float(busbw(one.algbw, result.collective)), 2)}{star}"]
        cells.append(f"{float(one.algbw / result.bound.algbw):.1%}"[:-1] if own else "-")
    if is_loaded:
        worst = None if measured is None else measured.congestion
        cells.append("-" if worst is None else f"{float(worst.times_optimum):.3f}")
    timed = {} if measured is None else {found.size_bytes: found for found in measured.sizes}
    for size in sizes:
        found = timed.get(size)
        share = None if found is None or name == IN_NETWORK else found.efficiency
        cells.append("-" if found is None else microseconds(float(found.time)))
        cells.append("-" if share is None else f"{share:.1%}"[:-1])
    steps = None if report.n_steps is None or one.algbw is None else report.n_steps
    if result.collective.kind is CollectiveKind.ALLTOALL:
        routes = "-" if one.form else "routes"
        return (*cells, routes if steps is None else str(steps))
    height = "-" if report.height_max is None or one.algbw is None else str(report.height_max)
    return (
        *cells,
        "-" if one.trees is None else str(one.trees),
        height if steps is None else f"{steps} steps",
    )


def _is_stepped(result: Comparison, one: ComparisonRow) -> bool:
    stepped = one.report is not None and one.report.n_steps is not None
    return stepped and result.collective.kind is not CollectiveKind.ALLTOALL


def _legend(
    result: Comparison, shown: Sequence[tuple[str, ComparisonRow]], sizes: Sequence[int], rates: Rates
) -> Iterator[Row]:
    """What columns and marks mean, what was verified, and what could not be run."""
    yield row("% opt", "share of the optimum at large sizes")
    if any(_is_stepped(result, one) for _, one in shown if one.algbw is not None):
        yield row("*", "steps run one after another; steps that overlap are faster, as times at sizes show")
    if any(one.measured is not None and one.measured.congestion is not None for _, one in shown):
        yield row("load", "time of the busiest link over the time at the optimum; 1.000 is the best possible")
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
            f"use 'dgx_h100(1, nvls=True)'",
            in_network={**best, "schedule": _values(found.bound, result.collective, found.row)},
        )
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
            skipped[one.refusal.removeprefix(f"{one.algorithm}: ")].append(one.algorithm)
    texts = [f"{', '.join(names)}: {reason}" for reason, names in skipped.items()]
    yield row("not run", "\n".join(texts) or None)
    untimed = [one for one in result.rows if one.measured is not None and one.measured.refusal]
    texts = [f"{one.algorithm}: {one.measured.refusal}" for one in untimed if one.measured is not None]
    yield row("no times", "\n".join(texts) or None)


def _file_rows(one: ComparisonRow) -> Iterator[Row]:
    """Violations and notes of a file that was given."""
    if one.form and one.report is not None:
        # here, because few comparisons have files
        from treadle.schedulers.third_party.placed_schedules import violation_text

        texts = [violation_text(violation) for violation in one.report.violations[:SHOWN_VIOLATIONS]]
        more = one.report.n_violations - SHOWN_VIOLATIONS
        texts += [f"and {counted(more, 'more violation')} (see --json)"] if more > 0 else []
        yield row("violations" if texts else None, f"{one.algorithm}: " + "\n".join(texts) if texts else None)
        yield from (row("note", f"{one.algorithm}: {note}") for note in one.notes)


def _time_tables(result: Comparison, shown: Sequence[tuple[str, ComparisonRow]]) -> Iterator[Row | Table]:
    """Simulated times of many sizes, in tables below each other."""
    found = {name: one.measured.sizes for name, one in shown if one.measured and one.measured.sizes}
    if not found:
        return
    least = [min(float(one.time) for one in column) for column in zip(*found.values(), strict=True)]
    bounds = [one.bound for one in next(iter(found.values()))]
    for first in range(0, len(result.sizes), _ABREAST):
        at = range(first, min(first + _ABREAST, len(result.sizes)))
        cells = []
        for name, own in found.items():
            times = [(float(own[k].time), least[k]) for k in at]
            cells.append([name, *(f"{time * 1e6:.4g}{'*' * (time <= best)}" for time, best in times)])
        last = ["" if (limit := bounds[k]) is None else f"{float(limit.time) * 1e6:.4g}" for k in at]
        cells += [["lower bound", *last]] if any(last) else []
        yield Table(["us", *(format_size(result.sizes[k]) for k in at)], cells, 1)
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
    if one.algbw is not None:
        found |= {
            **both_values(one.algbw, collective),
            "gap": float(1 - one.algbw / bound.algbw),
            "optimal": one.report.is_optimal or (False if bound.is_tight else None),
        }
    return {**found, **({} if one.trees is None else {"trees": one.trees}), **verification_values(one.report)}


def _measured_values(found: RowMeasures) -> dict[str, object]:
    """Which links a schedule keeps busy longest, and its times at sizes."""
    values: dict[str, object] = {"not_simulated": found.refusal} if found.refusal else {}
    if (worst := found.congestion) is not None:
        values |= {"busiest_links": list(worst.links), "n_busiest_links": worst.n_links}
        values["busiest_times_optimum"] = exact_text(worst.times_optimum)
    sizes = [
        {
            "size_bytes": one.size_bytes,
            "time_s": float(one.time),
            "slices": one.slices,
            **({"protocol": one.protocol} if one.protocol else {}),
            **fields_of(one, "algbw_bytes_per_s", "busbw_bytes_per_s"),
            **given(efficiency=one.efficiency),
            **size_bound_values(one.bound),
            "busiest_link": one.busiest,
            "utilisation": one.utilisation,
        }
        for one in found.sizes
    ]
    return {**values, "sizes": sizes} if sizes else values


def placed_rows(placed: PlacedSchedule, path: object, rates: Rates) -> Iterator[Row]:
    """What ``verify --topology`` reports of a runtime file on a fabric."""
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
    yield from (row("note", note) for note in placed.notes)
    yield facts(notes=list(placed.notes), path=str(path))


# ``algorithms``


def schedulers_rows(
    shown: Iterable[Scheduler], helps: Mapping[str, str] | None = None
) -> Iterator[Row | Table]:
    """Schedulers with their requirements and options; `helps` explains options by flag."""
    shown = tuple(shown)
    values = [
        {
            "name": one.name,
            "form": one.form.value,
            "collectives": [kind.value for kind in one.collectives],
            "needs": list(one.needs_in_words),
            "options": list(one.heeded),
            "flags": [flag_of(option) for option in one.heeded],
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
        flags = [flag_of(option) for option in one.heeded]
        yield row(None, f"{one.name} ({one.form}{', peer' if one.is_peer else ''})")
        for heading, text in (
            ("serves", ", ".join(one.collectives)),
            ("needs", ", ".join(one.needs_in_words)),
            ("groups", "several at once, too" if one.in_groups else ""),
            ("options", ", ".join(flags) if helps is None else ""),
            ("compared", one.comparing.value if one.comparing.value != "always" else ""),
            ("source", one.source),
            ("origin", one.origin),
        ):
            if text:
                yield row(None, f"  {heading:<7} {text}")
        if flags and helps is not None:
            yield row(None, "options of solve that it heeds")
            for flag in flags:
                yield row(None, f"  {helps.get(flag, flag)}")
