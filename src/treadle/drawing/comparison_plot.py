"""Plot of schedulers by size: times over the fastest one's; schedulers that win somewhere have colours."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.schedulers.comparison import Comparison
from treadle.units import format_size
from treadle.viz.matplotlib_plots import new_plot, plot_bytes

_MARKERS = "osD^v<>Pp*hX"
_MOST_NAMES = 3
_MOST_TIMES = 16
"""Slower rows are left out, so that the relevant ones can be distinguished."""


def plot_comparison(found: Comparison, *, title: str = "", file_format: str = "png") -> bytes:
    """Plot simulated times by size, as multiples of the fastest scheduler's.

    A scheduler that is quickest at some size has a colour and a marker of its own, the others are grey. A
    dashed line is the bound of each size.

    Parameters
    ----------
    found : Comparison
        Of two sizes or more.
    title : str
    file_format : str
        png, svg or pdf.

    Raises
    ------
    ScheduleError
        If the format is none of these, or there are fewer sizes.
    MissingDependencyError
        Without matplotlib.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.compare("ring:4", "allgather", algorithms=["ring", "forestcoll"], sizes="1K,1M")
    >>> treadle.planning.plot_comparison(found)[1:4]
    b'PNG'
    """
    rows = [(row.algorithm, row.measured.sizes) for row in found.rows if row.measured and row.measured.sizes]
    if len(found.sizes) < 2 or not rows:
        raise ScheduleError(
            f"plot: {len(rows)} schedulers were simulated at {len(found.sizes)} sizes; expected two or more"
        )
    alike: dict[tuple[float, ...], list[str]] = {}
    for name, own in rows:
        alike.setdefault(tuple(float(at.time) for at in own), []).append(name)
    least = [min(column) for column in zip(*alike, strict=True)]
    winners = [times for times in alike if any(map(float.__le__, times, least))]
    figure = new_plot(8.0, 4.5, file_format)
    axes = figure.add_subplot()
    for times, names in alike.items():
        ratios = [time / quickest for time, quickest in zip(times, least, strict=True)]
        if times in winners:
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            label = ", ".join(names[:_MOST_NAMES]) + more
            marker = _MARKERS[winners.index(times) % len(_MARKERS)]
            axes.plot(found.sizes, ratios, marker=marker, markersize=4, label=label, zorder=2)
        else:
            axes.plot(found.sizes, ratios, color="0.75", linewidth=0.8, zorder=1)
    if len(winners) < len(alike):
        axes.plot([], [], color="0.75", linewidth=0.8, label="never fastest")
    proved = [at.bound.time for at in rows[0][1] if at.bound is not None]
    if len(proved) == len(least):
        floor = [float(time) / quickest for time, quickest in zip(proved, least, strict=True)]
        axes.plot(found.sizes, floor, color="black", linestyle="--", linewidth=0.8, label="time bound")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_ylim(top=_MOST_TIMES)
    axes.yaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}x")
    axes.xaxis.set_major_formatter(lambda size, _: format_size(max(1, round(size))))
    axes.set_xlabel("size of the larger buffer of a rank")
    axes.set_ylabel("simulated time / the quickest one's")
    axes.set_title(title, fontsize="medium")
    axes.legend(fontsize="small")
    return plot_bytes(figure, file_format)
