"""Link utilisation over time, as numbers and as a picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.errors import ScheduleError
from treadle.simulation.costs.message_prices import prices
from treadle.simulation.result import Simulation
from treadle.viz.matplotlib_plots import new_plot, plot_bytes

MAX_LANES = 64
"""Links that a picture has room for; the busiest are shown."""

_BINS = 400


def utilisation_over_time(simulation: Simulation, bins: int = _BINS) -> NDArray[np.float64]:
    """Share of each of `bins` equal parts of the time for which each link is held, shape (resources, bins).

    Parameters
    ----------
    simulation : Simulation
        Under fair sharing a link counts as held by each message for the time that this takes; several at once
        add up to at most 1, because each counts with its average rate.
    bins : int
        At least 1.
    """
    if bins < 1:
        raise ScheduleError(f"utilisation: {bins} parts of the time, expected at least 1")
    graph = simulation.graph
    tasks = np.flatnonzero(graph.resource >= 0)
    totals = np.zeros((graph.n_resources, bins + 1))
    if not simulation.finish or not tasks.size:
        return totals[:, :bins]
    width = simulation.finish / bins
    share = _rates(simulation)[:, tasks]
    for part, row in enumerate(simulation.start[:, tasks]):
        begin, end = row / width, simulation.end[part, tasks] / width
        # the integral of what is held up to each bound, then differences: exact for any length of message
        for sign, moment in ((1.0, begin), (-1.0, end)):
            place = np.minimum(moment.astype(np.int64), bins)
            within = moment - place
            rate = sign * share[part]
            np.add.at(totals, (graph.resource[tasks], place), rate * (1 - within))
            later = place < bins
            np.add.at(totals, (graph.resource[tasks][later], place[later] + 1), (rate * within)[later])
    result: NDArray[np.float64] = np.cumsum(totals, axis=1)[:, :bins]
    return result


def _rates(simulation: Simulation) -> NDArray[np.float64]:
    """Part of its link that each message uses while it holds it, shape (slices, tasks)."""
    graph = simulation.graph
    held = np.broadcast_to(simulation.held, simulation.start.shape)
    if simulation.held.ndim == 1:
        return np.ones(held.shape)
    alone = np.zeros(graph.n_tasks)
    onto = graph.resource >= 0
    unit = simulation.size_bytes / (graph.program.n_chunks * simulation.options.slices)
    rates = prices(graph, simulation.options).resource_bytes_per_s[graph.resource[onto]]
    alone[onto] = graph.chunks[onto] * unit / rates / float(simulation.tick_s)
    result: NDArray[np.float64] = alone / np.maximum(held, 1)
    return result


def draw_utilization(simulation: Simulation, *, file_format: str = "png") -> bytes:
    """A lane for each of the busiest links, dark where it is held.

    Parameters
    ----------
    simulation : Simulation
    file_format : str
        png, svg or pdf.

    Raises
    ------
    ScheduleError
        For another format.
    MissingDependencyError
        Without matplotlib.

    Examples
    --------
    >>> import treadle
    >>> run = treadle.simulate(treadle.solve("ring:4", "allgather"), "1K")
    >>> treadle.planning.draw_utilization(run.last, file_format="svg")[:5]
    b'<?xml'
    """
    graph = simulation.graph
    shown = np.argsort(-simulation.busy, kind="stable")[:MAX_LANES]
    shown = np.sort(shown[simulation.busy[shown] > 0])
    figure = new_plot(8.0, 1.5 + 0.16 * max(4, len(shown)), file_format)
    axes = figure.add_subplot()
    image = axes.imshow(
        utilisation_over_time(simulation)[shown].reshape(len(shown), -1) if len(shown) else np.zeros((1, 1)),
        aspect="auto",
        interpolation="nearest",
        cmap="Blues",
        vmin=0,
        vmax=1,
        extent=(0, float(simulation.time - simulation.launch) * 1e6 or 1, len(shown) or 1, 0),
    )
    axes.set_yticks(np.arange(len(shown)) + 0.5, [graph.resource_name(int(link)) for link in shown])
    axes.tick_params(axis="y", labelsize=6)
    axes.set_xlabel("time (us)")
    axes.set_title(
        f"{graph.program.kind} on {graph.topology.name}, {simulation.size_bytes} bytes", fontsize=9
    )
    figure.colorbar(image, label="utilisation")
    return plot_bytes(figure, file_format)
