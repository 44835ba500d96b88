"""Simulated algbw against size, 1 KB to 1 GB, in the papers' settings: pictures, and ratios beside theirs.

    python benchmarks/simulated_curves.py                          # all settings, tables only
    python benchmarks/simulated_curves.py --settings a100 h100-16  # some of them
    python benchmarks/simulated_curves.py --docs docs --json curves.json

``--docs`` writes docs/images/curves-*.png (``pip install 'treadle[plot]'``) and, with all settings, the
tables of docs/simulated-curves.md. Every size takes the best of 1 to 64 slices, unless a curve is of whole
messages. Published figures are measured on real machines: directions and ratios are to be compared, not GB/s.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from time import process_time

import numpy as np
from curve_settings import (
    CLAIMS,
    FC,
    GIB,
    LINK,
    MIB,
    ONE_TREE,
    PHASES,
    SETTINGS,
    TREES,
    Claim,
    Curve,
    Measured,
    Panel,
    Results,
    Setting,
)
from published_formulas import best_chunk_count, double_binary_tree_time_s

from treadle import planning
from treadle.atomic import write_bytes
from treadle.schedules.plan import Plan
from treadle.simulation.result import Simulation
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulated_sizes import MAX_AUTO_SLICES, MAX_AUTO_TASKS, best_slices
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import TaskGraph, task_graph
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.units import format_size

MOST_TASKS = 2**22
"""Messages of one simulation: about two seconds."""
BEGIN, END = "<!-- simulated_curves.py begins -->", "<!-- simulated_curves.py ends -->"


def topology_of(curve: Curve, cap: int) -> Topology:
    """The fabric, with hosts as slow as the setting has them."""
    fabric = parse(curve.fabric)
    return replace(fabric, injection_bytes_per_s=np.full(fabric.n_nodes, cap)) if cap else fabric


def plan_of(curve: Curve, collective: str, cap: int = 0) -> Plan:
    """The verified plan of a curve."""
    return planning.solve(
        topology_of(curve, cap),
        collective,
        algorithm=curve.algorithm,
        trees=curve.trees or None,
        exact=curve.exact,
        multicast=curve.multicast,
        chunks=1 if curve.algorithm == TREES else None,
    ).plan


def measure(setting: Setting, panel: Panel, curve: Curve) -> Measured:
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
    )


def simulated(graph: TaskGraph, size: int, options: SimulationOptions, *, cut: bool) -> Simulation:
    """One size; with `cut` at the best number of slices, up to `MOST_TASKS` messages where thin ones help."""
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
    """Trees that broadcast after they have reduced, by the formula with the best number of chunks."""
    ranks, alpha_s = plan.collective.n_ranks, alpha_ns / 1e9
    model = {"size_bytes": size, "alpha_s": alpha_s, "bandwidth_bytes_per_s": LINK}
    return double_binary_tree_time_s(ranks, best_chunk_count(ranks, **model), **model)


def run(settings: Sequence[Setting]) -> Results:
    """Measure every curve; a line of progress for each on standard error."""
    results: dict[tuple[str, str, str], Measured] = {}
    todo = [
        (setting, panel, curve) for setting in settings for panel in setting.panels for curve in panel.curves
    ]
    for done, (setting, panel, curve) in enumerate(todo, start=1):
        start = process_time()
        results[setting.name, panel.title, curve.label] = measure(setting, panel, curve)
        seconds = process_time() - start
        print(
            f"{done}/{len(todo)} {setting.name}, {panel.title}, {curve.label}: {seconds:.1f} s CPU",
            file=sys.stderr,
        )
    return results


# --- tables ------------------------------------------------------------------------------------------------


def ratio(results: Results, claim: Claim, sizes: int | tuple[int, int]) -> float:
    """Simulated time of the other curve to ours, at a size or as a mean over a range."""
    ours, other = _both(results, claim)
    low, high = sizes if isinstance(sizes, tuple) else (sizes, sizes)
    chosen = [size for size in ours.seconds if low <= size <= high]
    return sum(other.seconds[size] / ours.seconds[size] for size in chosen) / len(chosen)


def cost_ratio(results: Results, claim: Claim) -> Fraction:
    """The same as the size grows, by the costs of the schedules."""
    ours, other = _both(results, claim)
    return ours.asymptotic / other.asymptotic


def _both(results: Results, claim: Claim) -> tuple[Measured, Measured]:
    place = claim.setting, claim.panel
    return results[*place, claim.ours], results[*place, claim.other]


def claims_table(results: Results) -> str:
    """Published and simulated ratios of what was measured; one tree a root beside ForestColl's choice."""
    lines = [
        "| setting | | ours / other | source | sizes | published | simulated | 1 tree a root | limit |",
        "|---|---|---|---|---|---|---|---|--:|",
    ]
    for claim in CLAIMS:
        if (claim.setting, claim.panel, claim.ours) not in results:
            continue
        sizes = (
            "-".join(map(format_size, size)) + " mean" if isinstance(size, tuple) else format_size(size)
            for size in claim.published
        )
        found = ", ".join(f"{ratio(results, claim, size):.2f}" for size in claim.published)
        alike = replace(claim, ours=ONE_TREE)
        one_tree = ""
        if claim.ours == FC and (claim.setting, claim.panel, ONE_TREE) in results:
            one_tree = ", ".join(f"{ratio(results, alike, size):.2f}" for size in claim.published)
        cells = (
            *(claim.setting, claim.panel, f"{claim.ours} / {claim.other}", claim.source, ", ".join(sizes)),
            *(", ".join(claim.published.values()), found, one_tree),
            f"{float(cost_ratio(results, claim)):.3f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def curves_table(settings: Sequence[Setting], results: Results) -> str:
    """Simulated algbw at a few sizes, and its limit by the schedule's cost, in GB/s."""
    chosen = (2**10, 2**16, MIB, 16 * MIB, 256 * MIB, GIB)
    lines = [
        "| setting | | schedule | " + " | ".join(map(format_size, chosen)) + " | limit |",
        "|---|---|---|" + "--:|" * (len(chosen) + 1),
    ]
    for setting in settings:
        for panel in setting.panels if len(setting.sizes) > len(chosen) else ():
            for curve in panel.curves:
                found = results[setting.name, panel.title, curve.label]
                cells = [f"{found.algbw(size) / 1e9:.3g}" for size in chosen]
                lines.append(
                    f"| {setting.name} | {panel.title} | {curve.label} | {' | '.join(cells)} | "
                    f"{float(found.asymptotic) / 1e9:.4g} |"
                )
    return "\n".join(lines)


def as_json(settings: Sequence[Setting], results: Results) -> str:
    """Everything measured."""
    return json.dumps(
        {
            setting.name: {
                "title": setting.title,
                "alpha_s": setting.alpha_ns / 1e9,
                "overhead_s": setting.overhead_ns / 1e9,
                "curves": [
                    {
                        "panel": panel.title,
                        "schedule": curve.label,
                        "fabric": curve.fabric,
                        "asymptotic_bytes_per_s": str(found.asymptotic),
                        "seconds": {str(size): seconds for size, seconds in found.seconds.items()},
                        "slices": {str(size): slices for size, slices in found.slices.items()},
                    }
                    for panel in setting.panels
                    for curve in panel.curves
                    for found in (results[setting.name, panel.title, curve.label],)
                ],
            }
            for setting in settings
        },
        indent=1,
    )


def main() -> None:
    """Print the tables; write pictures, page and JSON where asked to."""
    names = [setting.name for setting in SETTINGS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--settings", nargs="+", choices=names, default=names)
    parser.add_argument("--docs", type=Path, help="folder of the page and of images/")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    chosen = [setting for setting in SETTINGS if setting.name in asked.settings]
    results = run(chosen)
    tables = f"{claims_table(results)}\n\n## Simulated algbw\n\nGB/s.\n\n{curves_table(chosen, results)}"
    print(tables)
    if asked.json is not None:
        write_bytes(asked.json, as_json(chosen, results).encode())
    if asked.docs is not None:
        from curve_pictures import picture, picture_by_nodes  # matplotlib is an extra

        (asked.docs / "images").mkdir(exist_ok=True)
        for setting in chosen:
            draw = picture if len(setting.sizes) > 3 else picture_by_nodes
            write_bytes(asked.docs / "images" / f"curves-{setting.name}.png", draw(setting, results))
        if len(chosen) == len(SETTINGS):
            page = asked.docs / "simulated-curves.md"
            before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
            write_bytes(page, f"{before}{BEGIN}\n\n{tables}\n\n{END}{rest.partition(END)[2]}".encode())
    print(f"{process_time():.0f} s CPU in all", file=sys.stderr)


if __name__ == "__main__":
    main()
