"""Latency and bandwidth of a network of links with known delays, fitted to measured times of programs.

What a program takes is, along its critical path, a sum of the links' delays, of messages' software
latencies and of bytes over bandwidth. Simulation counts how many of each there are, a linear regression
what they cost, and with these costs another path may be critical: both are repeated until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from treadle.simulation.calibration.regression import fit_times
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import TaskGraph

_ROUNDS = 12
_STEP = 0.01
_LEAST_STEP_S = 1e-6
_SAME = 1e-4


@dataclass(frozen=True)
class NetworkModel:
    """Costs of a network beyond its nominal rates and delays.

    Parameters
    ----------
    alpha_s : float
        Software latency of a message.
    epsilon_s : float
        Of a whole collective.
    share : float
        Bandwidth of a link over its nominal one.
    """

    alpha_s: float
    epsilon_s: float
    share: float


@dataclass(frozen=True, eq=False)
class TimedProgram:
    """A program at a size, and how long it took.

    Parameters
    ----------
    graph : TaskGraph
        Resources have the links' nominal rates and delays.
    slices : int
        Into which its messages are cut.
    """

    graph: TaskGraph
    size_bytes: int
    slices: int
    time_s: float


def predicted_s(model: NetworkModel, graph: TaskGraph, size_bytes: int, slices: int) -> float:
    """Seconds of a program by a model: simulated, and epsilon."""
    scaled = np.maximum(1, np.rint(graph.resource_bytes_per_s * model.share)).astype(np.int64)
    options = SimulationOptions(slices=slices, alpha_ns=round(model.alpha_s * 1e9))
    return simulate_graph(replace(graph, resource_bytes_per_s=scaled), size_bytes, options).time_s + (
        model.epsilon_s
    )


def fit_network(timed: Sequence[TimedProgram]) -> NetworkModel:
    """Return the model with the smallest relative errors on these times.

    Raises
    ------
    ScheduleError
        Without times, or if they do not grow with anything that is fitted.

    Notes
    -----
    Starts from the nominal network. Of all rounds the one with the least mean error counts.
    """
    model = NetworkModel(0.0, 0.0, 1.0)
    best, least = model, np.inf
    times = np.array([one.time_s for one in timed])
    for _ in range(_ROUNDS):
        following = _refit(model, timed)
        told = [predicted_s(following, one.graph, one.size_bytes, one.slices) for one in timed]
        error = float(np.abs(np.array(told) / times - 1).mean())
        if error < least:
            best, least = following, error
        if np.allclose(astuple(model), astuple(following), rtol=_SAME, atol=1e-9):
            break
        model = following
    return best


def _refit(model: NetworkModel, timed: Sequence[TimedProgram]) -> NetworkModel:
    """One regression along the critical paths of a model: there time is linear in alpha and 1 / share."""
    rows, known = [], []
    alpha_step = max(_STEP * model.alpha_s, _LEAST_STEP_S)
    inverse = 1 / model.share
    later = replace(model, alpha_s=model.alpha_s + alpha_step)
    slower = replace(model, share=1 / (inverse * (1 + _STEP)))
    for one in timed:
        here, alpha, share = (
            predicted_s(way, one.graph, one.size_bytes, one.slices) for way in (model, later, slower)
        )
        messages, busy = (alpha - here) / alpha_step, (share - here) / (inverse * _STEP)
        rows.append((busy, messages, 1.0))
        known.append(max(0.0, here - model.epsilon_s - model.alpha_s * messages - inverse * busy))
    names = ("inverse", "alpha", "epsilon")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    fit = fit_times(columns, [one.time_s for one in timed], known_s=known)
    slowness = fit.value("inverse")
    return NetworkModel(fit.value("alpha"), fit.value("epsilon"), 1 / slowness if slowness > 0 else 1.0)
