"""Simulated algbw against size, 1 KB to 1 GB, in the papers' settings: pictures, and ratios beside theirs.

    python -m benchmarks.simulated_curves                          # all settings, tables only
    python -m benchmarks.simulated_curves --settings a100 h100-16  # some of them
    python -m benchmarks.simulated_curves --write --json curves.json

``--write`` writes docs/images/curves-*.png (``pip install 'treadle[plot]'``) and, with all settings, the
record simulated-curves. `treadle reproduce` has the same ratios one table or figure at a time. Every size
takes the best of 1 to 64 slices, unless a curve is of whole messages. Published figures are measured on
real machines: compare directions and ratios, not GB/s.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time

from tools.records import RECORDS, Table, show, write_tables

from treadle.atomic import write_bytes
from treadle.reproduction.curve_settings import (
    CLAIMS,
    FC,
    GIB,
    MIB,
    ONE_TREE,
    SETTINGS,
    CurveSetting,
    Measured,
    Results,
    format_sizes,
)
from treadle.reproduction.printed import published_figures
from treadle.reproduction.simulated_curves import cost_ratio, measure, ratio
from treadle.units import format_size


def run(settings: Sequence[CurveSetting]) -> Results:
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


def claims_table(results: Results) -> Table:
    """Published and simulated ratios of what was measured; one tree a root beside ForestColl's choice."""
    rows = []
    for claim in CLAIMS:
        if (claim.setting, claim.panel, claim.ours) not in results:
            continue
        figures = published_figures()[claim.exhibit].figures
        sizes = [size for size in claim.sizes if claim.label(size) in figures]
        found = ", ".join(f"{ratio(results, claim, size):.2f}" for size in sizes)
        alike = replace(claim, ours=ONE_TREE)
        one_tree = ""
        if claim.ours == FC and (claim.setting, claim.panel, ONE_TREE) in results:
            one_tree = ", ".join(f"{ratio(results, alike, size):.2f}" for size in sizes)
        cells = (
            *(claim.setting, claim.panel, f"{claim.ours} / {claim.other}", claim.source),
            ", ".join(map(format_sizes, sizes)),
            ", ".join(figures[claim.label(size)].text for size in sizes),
            *(found, one_tree, f"{float(cost_ratio(results, claim)):.3f}"),
        )
        rows.append(cells)
    columns = ("setting", "", "ours / other", "source", "sizes", "published", "simulated", "1 tree a root")
    return Table("Ratios", (*columns, "limit"), rows)


def curves_table(settings: Sequence[CurveSetting], results: Results) -> Table:
    """Simulated algbw at a few sizes, and its limit by the schedule's cost, in GB/s."""
    chosen = (2**10, 2**16, MIB, 16 * MIB, 256 * MIB, GIB)
    rows = []
    for setting in settings:
        for panel in setting.panels if len(setting.sizes) > len(chosen) else ():
            for curve in panel.curves:
                found = results[setting.name, panel.title, curve.label]
                cells = [f"{found.algbw(size) / 1e9:.3g}" for size in chosen]
                limit = f"{float(found.asymptotic) / 1e9:.4g}"
                rows.append((setting.name, panel.title, curve.label, *cells, limit))
    columns = ("setting", "", "schedule", *map(format_size, chosen), "limit")
    return Table("Simulated algbw", columns, rows)


def as_json(settings: Sequence[CurveSetting], results: Results) -> str:
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
    parser.add_argument("--write", action="store_true", help="pictures, and with all settings the record")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    chosen = [setting for setting in SETTINGS if setting.name in asked.settings]
    results = run(chosen)
    tables = claims_table(results), curves_table(chosen, results)
    show(*tables)
    if asked.json is not None:
        write_bytes(asked.json, as_json(chosen, results).encode())
    if asked.write:
        from benchmarks.curve_pictures import picture, picture_by_nodes  # matplotlib is an extra

        for setting in chosen:
            draw = picture if len(setting.sizes) > 3 else picture_by_nodes
            file = RECORDS.parent / "images" / f"curves-{setting.name}.png"
            write_bytes(file, draw(setting, results))
        if len(chosen) == len(SETTINGS):
            write_tables("simulated-curves", *tables)
    print(f"{process_time():.0f} s CPU in all", file=sys.stderr)


if __name__ == "__main__":
    main()
