"""Pictures of what `simulated_curves.py` measured; needs matplotlib (``pip install 'treadle[plot]'``)."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from treadle.reproduction.curve_settings import (
    AG,
    AR,
    BEST,
    BEST_TOPOLOGIES,
    GIB,
    MIB,
    RS,
    CurveSetting,
    Results,
    testbed_panel,
)
from treadle.units import format_size

FAMILIES = ("ForestColl", "ring", "MultiTree", "Blink", "double", "BFB", "traditional", "RH&D", "Shifted")
"""Starts of labels in the order of matplotlib's colours: a family has one colour in all pictures."""
LINES = {"SHARP": "-.", "NVLS": "--", "twisted, sliced": "-.", "twisted": "--"}
"""By the end of a label."""
DOTTED = ("1 tree", "whole", "in phases", "ShiftedRing")
DPI = 70


def style(label: str) -> dict[str, Any]:
    """A family's colour; variants are dashed or dotted."""
    start = "BFB" if label == BEST else label
    family = next(place for place, name in enumerate(FAMILIES) if start.startswith(name))
    line = ":" if any(word in label for word in DOTTED) else "-"
    line = next((dash for end, dash in LINES.items() if label.endswith(end)), line)
    # what coincides stays visible: ours over the others, dots over lines
    return {"color": f"C{family}", "linestyle": line, "zorder": 4 if line == ":" else 3 - 0.1 * family}


def picture(setting: CurveSetting, results: Results) -> bytes:
    """Algbw against size, and below it over that of the first curve; a column for each panel; PNG."""
    columns = len(setting.panels)
    figure = Figure(figsize=(max(3.7 * columns, 6.5), 6), dpi=DPI, layout="constrained")
    axes = figure.subplots(2, columns, squeeze=False, sharex=True)
    for column, panel in zip(axes.T, setting.panels, strict=True):
        ours = results[setting.name, panel.title, panel.curves[0].label]
        for curve in panel.curves:
            found = results[setting.name, panel.title, curve.label]
            rates = {size: found.algbw(size) for size in found.seconds}
            column[0].plot(
                list(rates), [rate / 1e9 for rate in rates.values()], label=curve.label, **style(curve.label)
            )
            over = [rate / ours.algbw(size) for size, rate in rates.items()]
            column[1].plot(list(rates), over, **style(curve.label))
        column[0].set(title=panel.title, ylim=(0, None))
        column[1].set_yscale("log", base=2)
        column[1].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        column[1].set_xscale("log", base=2)
        column[1].set_xticks([2**10, 2**15, MIB, 2**25, GIB], ["1KB", "32KB", "1MB", "32MB", "1GB"])
        column[1].set_xlabel("size")
    axes[0][0].set_ylabel("simulated algbw (GB/s)")
    axes[1][0].set_ylabel(f"algbw over {setting.panels[0].curves[0].label}'s")
    _finish(figure, axes, 4 if columns > 1 else 2)
    figure.suptitle(setting.title)
    return _png(figure)


def picture_by_nodes(setting: CurveSetting, results: Results) -> bytes:
    """Figures 3.6 and A.1: times against the number of nodes, a row for each collective."""
    figure = Figure(figsize=(10, 7.5), dpi=DPI, layout="constrained")
    axes = figure.subplots(3, len(setting.sizes), sharex=True)
    for row, kind in zip(axes, (AR, RS, AG), strict=True):
        for place, size in zip(row, setting.sizes, strict=True):
            for label in (curve.label for curve in testbed_panel(12, kind, kind).curves):
                found = [results[setting.name, f"{kind}, N={n}", label] for n in BEST_TOPOLOGIES]
                times = [one.seconds[size] * 1e6 for one in found]
                place.plot(list(BEST_TOPOLOGIES), times, marker=".", label=label, **style(label))
            place.set(title=f"{kind}, {format_size(size)}", ylim=(0, None))
        row[0].set_ylabel("simulated time (us)")
    for place in axes[-1]:
        place.set_xlabel("nodes")
    _finish(figure, axes, 5)
    return _png(figure)


def _finish(figure: Figure, axes: Any, columns: int) -> None:
    """Grids, and one legend of the fullest part."""
    parts: list[Axes] = list(axes.flat)
    for place in parts:
        place.grid(visible=True, alpha=0.3)
    fullest = max((place for place in parts if place.get_title()), key=lambda place: len(place.lines))
    figure.legend(*fullest.get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=9)


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()
