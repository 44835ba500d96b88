"""Simulated times of the papers' schedules, compared with the ratios that the papers measured.

Every size takes the best of 1 to 64 slices, unless a curve is of whole messages. What is printed was measured
on real machines: directions and ratios are to be compared, not GB/s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from treadle import planning
from treadle.reproduction.box_tables import blink_variants
from treadle.reproduction.curve_settings import (
    BEST,
    CLAIMS,
    LINK,
    MIB,
    PHASES,
    SETTINGS,
    SLICED_RHD,
    TREES,
    UNSLICED,
    Claim,
    Curve,
    CurveSetting,
    Measured,
    Panel,
    Results,
    Sizes,
    format_sizes,
    testbed_panel,
)
from treadle.reproduction.paper_figure import Rows
from treadle.schedules.plan import Plan
from treadle.schedules.steps.steps import StepSchedule
from treadle.simulation.result import Simulation
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulated_sizes import best_slices
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.slice_search import MAX_AUTO_SLICES, MAX_AUTO_TASKS
from treadle.simulation.tasks import TaskGraph, task_graph
from treadle.synthesis.steps.baselines.binary_tree_times import best_chunk_count, double_binary_tree_time_s
from treadle.topologies import parse
from treadle.topologies.topology import Topology

MOST_TASKS = 2**22
"""Messages of one simulation: about two seconds."""


def topology_of(curve: Curve, cap: int) -> Topology:
    """Return the fabric, with hosts as slow as the setting has them."""
    fabric = parse(curve.fabric)
    return replace(fabric, injection_bytes_per_s=np.full(fabric.n_nodes, cap)) if cap else fabric


def plan_of(curve: Curve, collective: str, cap: int = 0) -> Plan:
    """Return the verified plan of a curve."""
    return planning.solve(
        topology_of(curve, cap),
        collective,
        algorithm=curve.algorithm,
        trees=curve.trees or None,
        exact=curve.exact,
        multicast=curve.multicast,
        chunks=1 if curve.algorithm == TREES else None,
    ).plan


def measure(setting: CurveSetting, panel: Panel, curve: Curve) -> Measured:
    """Simulate every size."""
    plan = plan_of(curve, panel.collective, setting.cap)
    # pipelined trees send M through every link; the plan's own chunks are for the simulator's slices to cut
    asymptotic = Fraction(LINK) if curve.algorithm == TREES else plan.algbw
    if curve.label == PHASES:
        times = {size: (_tree_time_s(plan, size, setting.alpha_ns), 0) for size in setting.sizes}
    else:
        graph = task_graph(plan.topology, planning.program_of(plan, max(setting.sizes)))
        options = SimulationOptions(alpha_ns=setting.alpha_ns, slices=curve.slices or 1)
        found = [simulated(graph, size, options, cut=not curve.slices) for size in setting.sizes]
        times = {run.size_bytes: (run.time_s, run.options.slices) for run in found}
    overhead_s = setting.overhead_ns / 1e9
    return Measured(
        asymptotic,
        {size: seconds + overhead_s for size, (seconds, _) in times.items()},
        {size: slices for size, (_, slices) in times.items()},
        {size: seconds + overhead_s for size, seconds in _whole_steps_s(setting, curve, plan).items()},
    )


def _whole_steps_s(setting: CurveSetting, curve: Curve, plan: Plan) -> dict[int, float]:
    """Return T_L + T_B of a step schedule without slices; trees in phases use their best number of chunks."""
    schedule = plan.entries[-1].schedule
    if curve.label == PHASES:
        return {size: _tree_time_s(plan, size, setting.alpha_ns) for size in setting.sizes}
    # other trees and the sliced curve would repeat the rows of trees in phases and of whole messages
    if curve.algorithm == TREES or curve.label == SLICED_RHD or not isinstance(schedule, StepSchedule):
        return {}
    latency_s = schedule.n_steps * setting.alpha_ns / 1e9
    return {size: latency_s + float(size / plan.algbw) for size in setting.sizes}


def simulated(graph: TaskGraph, size: int, options: SimulationOptions, *, cut: bool) -> Simulation:
    """Simulate one size; with `cut` at the best number of slices, up to `MOST_TASKS` messages."""
    if not cut:
        return simulate_graph(graph, size, options)
    best = best_slices(graph, size, options).simulation
    slices = 2 * best.options.slices
    if size < MIB or slices * graph.n_tasks <= MAX_AUTO_TASKS:
        return best  # small, or thinner slices were tried
    while slices <= MAX_AUTO_SLICES and slices * graph.n_tasks <= MOST_TASKS:
        found = simulate_graph(graph, size, replace(options, slices=slices))
        if found.time > best.time * Fraction(99, 100):
            break
        best, slices = found, 2 * slices
    return best


def _tree_time_s(plan: Plan, size: int, alpha_ns: int) -> float:
    """Return trees that reduce and then broadcast, by the formula with the best number of chunks."""
    ranks, alpha_s = plan.collective.n_ranks, alpha_ns / 1e9
    model = {"size_bytes": size, "alpha_s": alpha_s, "bandwidth_bytes_per_s": LINK}
    return double_binary_tree_time_s(ranks, best_chunk_count(ranks, **model), **model)


def ratio(results: Results, claim: Claim, sizes: Sizes) -> float:
    """Return the other curve's simulated time over Treadle's, at a size or as a mean over a range."""
    ours, others = _both(results, claim)
    low, high = sizes if isinstance(sizes, tuple) else (sizes, sizes)
    chosen = [size for size in ours.seconds if low <= size <= high]
    fastest = {size: min(other.seconds[size] for other in others) for size in chosen}
    return sum(fastest[size] / ours.seconds[size] for size in chosen) / len(chosen)


def full_steps_ratio(results: Results, claim: Claim, sizes: Sizes) -> float | None:
    """Return the ratio at one size by the alpha-beta model, no slices; None for a mean or without steps."""
    ours, others = _both(results, claim)
    if isinstance(sizes, tuple) or not all(one.whole_steps_s for one in (ours, *others)):
        return None
    return min(other.whole_steps_s[sizes] for other in others) / ours.whole_steps_s[sizes]


def cost_ratio(results: Results, claim: Claim) -> Fraction:
    """Return the ratio as the size grows, by the costs of the schedules."""
    ours, others = _both(results, claim)
    return ours.asymptotic / max(other.asymptotic for other in others)


def _both(results: Results, claim: Claim) -> tuple[Measured, list[Measured]]:
    place = claim.setting, claim.panel
    return results[*place, claim.ours], [results[*place, label] for label in claim.other.split(" or ")]


def panels_of(name: str) -> tuple[CurveSetting, dict[str, Panel]]:
    """Return the setting of that name, and its panels by title."""
    setting = next(one for one in SETTINGS if one.name == name)
    return setting, {panel.title: panel for panel in setting.panels}


def _claimed(exhibit: str, full: bool) -> Rows:
    """Yield every ratio that is printed for a table or figure; in the quick form at the largest single size.

    That leaves out the slow settings as well.
    """
    claims = [one for one in CLAIMS if one.exhibit == exhibit and (full or one.setting not in _SLOW)]
    kept = {claim: claim.sizes if full else _quick_sizes(claim.sizes) for claim in claims}
    results: dict[tuple[str, str, str], Measured] = {}
    for claim, wanted in kept.items():
        setting, panels = panels_of(claim.setting)
        alike = [one for one in claims if (one.setting, one.panel) == (claim.setting, claim.panel)]
        sizes = _sizes_of([size for one in alike for size in kept[one]], setting)
        for label in (claim.ours, *claim.other.split(" or ")) if wanted else ():
            place = claim.setting, claim.panel, label
            if place not in results:
                curve = next(one for one in panels[claim.panel].curves if one.label == label)
                results[place] = measure(replace(setting, sizes=sizes), panels[claim.panel], curve)
        for size in wanted:
            yield claim.label(size), ratio(results, claim, size), "times"
            whole = full_steps_ratio(results, claim, size)
            if whole is not None:
                yield claim.label_of_full_steps(size), whole, "times"
        if wanted:
            yield claim.label_of_limit, cost_ratio(results, claim), "times"


_SLOW = ("mi250-16", "h100-16")


def _quick_sizes(sizes: Sequence[Sizes]) -> tuple[Sizes, ...]:
    return tuple(size for size in sizes if not isinstance(size, tuple))[-1:]


def _sizes_of(wanted: Sequence[Sizes], setting: CurveSetting) -> tuple[int, ...]:
    """Return the setting's sizes that any of these is about."""
    ranges = [size if isinstance(size, tuple) else (size, size) for size in wanted]
    return tuple(size for size in setting.sizes if any(low <= size <= high for low, high in ranges))


figure_3_6 = partial(_claimed, "figure-3.6")
"""Twelve nodes of the testbed."""


def figure_a_1(_full: bool) -> Rows:
    """Reduce-scatter and allgather on the testbed: rings compared with the best fabric."""
    setting, _ = panels_of("testbed")
    for kind in ("reduce-scatter", "allgather"):
        for n in (5, 8, 12):
            panel = testbed_panel(n, kind, f"{kind}, N={n}")
            best, *others = (measure(setting, panel, curve) for curve in panel.curves)
            for curve, other in zip(panel.curves[1:], others, strict=True):
                for size in setting.sizes:
                    label = f"{panel.title}: {BEST} / {curve.label}, {format_sizes(size)}"
                    yield label, other.seconds[size] / best.seconds[size], "times"
                    whole = other.whole_steps_s[size] / best.whole_steps_s[size]
                    yield f"{label}, {UNSLICED}", whole, "times"


figure_a_2 = partial(_claimed, "figure-A.2")
"""Cube and twisted cube of eight nodes."""


def figure_3_11(full: bool) -> Rows:
    """Yield tori with slow hosts; the paper gives means over sizes, the quick form their limits."""
    yield from _claimed("figure-3.11", full)
    for name, panel in panels_of("tori")[1].items():
        cap = panels_of("tori")[0].cap
        best, traditional = (plan_of(curve, panel.collective, cap).algbw for curve in panel.curves[:2])
        yield f"limit, {name}: BFB / traditional torus", best / traditional, "times"
        yield f"limit, {name}: BFB", best / 10**9, "GB/s"


def figure_4_10(full: bool) -> Rows:
    """Yield MI250 boxes: statements of the paper, and single-root allreduces in the limit."""
    yield from _claimed("figure-4.10", full)
    for title, fabric in (("8+8", "mi250(2, 8)"), *((("16+16", "mi250(2)"),) if full else ())):
        yield from blink_variants(title, fabric)


figure_4_11 = partial(_claimed, "figure-4.11")
"""A100 boxes."""


def figure_4_12(full: bool) -> Rows:
    """Yield H100 boxes; the quick form simulates one box only."""
    yield from _claimed("figure-4.12", full)
    for boxes in (1, 2, 4, 8, 16):
        best = planning.bound(f"dgx_h100({boxes})", "allgather").algbw
        ring = planning.solve(f"dgx_h100({boxes})", "allgather", algorithm="ring").algbw
        yield f"limit, {boxes}x8 allgather: optimum", best / 10**9, "GB/s"
        yield f"limit, {boxes}x8 allgather: optimum / ring", best / ring, "times"


preprint_table_2 = partial(_claimed, "preprint-table-2")
"""MI250 boxes at four sizes."""

preprint_table_3 = partial(_claimed, "preprint-table-3")
"""A100 boxes at four sizes."""
