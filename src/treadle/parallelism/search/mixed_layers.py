"""Layers that differ: how many take which plan of the block, at best, and how good any mixture can be.

With t_c the seconds of a layer that takes column c (the larger of its compute and communication, not of the
model's totals: see below), n_c layers, and an ending e,

    minimise  sum n_c t_c + seconds(e) + switches,   sum n_c = layers,
    bytes that stay of all layers and of e + bytes of moment t of any used c and of e <= limit, all t.

Switches of boundary states are counted as exposed: once round from the ends through the states that are used
and back. For multipliers mu >= 0 of the moments, with the bytes of any used column replaced by their mean
over layers, which is not more, and switches left out, the problem falls apart:

    layers * min_c [t_c + mu . bytes(c) / layers] + min_e [seconds(e) + mu . bytes(e)] - limit * sum mu

bounds every mixture from below. Both minima are searched by branch and bound (`branching`), whose bounds
count; what they find are new columns, and a linear program over columns gives new multipliers (Dantzig and
Wolfe). The mixture is an integer program over the columns found, one for each small set of boundary states.

Where overlap is counted over the whole model, max(sum of compute, sum of communication), mixing layers that
only compute with layers that only communicate looks as if both hid behind each other, which no layer does:
such an objective is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise, permutations

import numpy as np

from treadle.context import context
from treadle.errors import ScheduleError
from treadle.math.lp import Program
from treadle.parallelism.search.branching import Incumbent, SearchEffort, minimise
from treadle.parallelism.search.factor_graph import FloatArray
from treadle.parallelism.search.layer_columns import ColumnPool, Layering, Plan, joined, priced
from treadle.parallelism.search.minimax import Overlap

MOST_COLUMNS, MOST_ENDINGS, MOST_STATES = 40, 20, 6
"""In an integer program; boundary states of which sets of up to three are tried."""
_MOST_ROUNDS = 3
"""Most sets of multipliers."""


@dataclass(frozen=True)
class MixedLayers:
    """Plan of each layer.

    Parameters
    ----------
    layers : tuple of plans of the whole graph
        By layer; what they say of the ends does not count.
    ends : tuple of int
        A plan of the whole graph that says what the ends take.
    value : float
        Seconds of a step.
    switch_s : float
        Of these, to change boundary states.
    bound : float
        No mixture takes less.
    prices : array of shape (moments,)
        Seconds a byte of that bound.
    column, ending : Incumbent, optional
        The searches of the cheapest layers and ends at these prices.
    """

    layers: tuple[Plan, ...]
    ends: Plan
    value: float
    switch_s: float
    bound: float
    prices: FloatArray = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)
    column: Incumbent | None = field(default=None, repr=False, compare=False)
    ending: Incumbent | None = field(default=None, repr=False, compare=False)

    @property
    def gap(self) -> float:
        """Share of the value that may be saved at most."""
        return 0.0 if self.value <= 0 else max(0.0, 1 - self.bound / self.value)


def mix_layers(
    layering: Layering,
    known: Iterable[Plan],
    *,
    memory_bytes: float = np.inf,
    overlap: Overlap = Overlap.LAYER,
    effort: SearchEffort | None = None,
) -> MixedLayers | None:
    """Let layers differ where that is faster.

    Parameters
    ----------
    layering : Layering
    known : iterable of plans of the whole graph
        Among which one plan for all layers keeps to the limit: the answer is never worse.
    memory_bytes : float
        Limit of every moment.
    overlap : Overlap
        Not over the whole model.
    effort : SearchEffort, optional
        Of each search for a column or an ending; its gap also ends the rounds.

    Returns
    -------
    MixedLayers, or None where no mixture of what was found keeps to the limit.

    Raises
    ------
    ScheduleError
        For overlap over the whole model.
    """
    if overlap is Overlap.MODEL:
        raise ScheduleError("mixed layers: overlap is counted by layer, or mixtures hide what no layer can")
    effort = SearchEffort() if effort is None else effort
    plans = list(known)
    columns, endings = (
        ColumnPool.of(side, [side.cut(plan) for plan in plans], overlap)
        for side in (layering.layers, layering.ends)
    )
    best, bound = _one_for_all(columns, endings, layering, memory_bytes), -np.inf
    searches: tuple[FloatArray, Incumbent | None, Incumbent | None] = np.zeros(0), None, None
    for _ in range(_MOST_ROUNDS):
        columns, endings = _useful(columns, endings, layering, best)
        if not columns.plans or not endings.plans:
            return None
        prices = best_prices(columns, endings, memory_bytes)
        column = _search(columns, overlap, prices, effort=effort)
        ending = _search(endings, overlap, prices, effort=effort)
        paid = float(prices.sum()) * memory_bytes if prices.any() else 0.0
        if column.bound + ending.bound - paid > bound:
            bound, searches = column.bound + ending.bound - paid, (prices, column, ending)
        columns = columns.with_more(column.plans, overlap)
        endings = endings.with_more(ending.plans, overlap)
        columns, endings = _useful(columns, endings, layering, best)
        prices = best_prices(columns, endings, memory_bytes)
        best = _mixture(layering, columns, endings, prices, memory_bytes, best)
        if context().is_late or (best is not None and bound >= best.value * (1 - effort.gap)):
            break
    if best is None:
        return None
    prices, cheapest, end = searches
    return replace(best, bound=min(bound, best.value), prices=prices, column=cheapest, ending=end)


def _search(pool: ColumnPool, overlap: Overlap, prices: FloatArray, *, effort: SearchEffort) -> Incumbent:
    """Return the best column, or ending, at these prices."""
    merit = pool.seconds + pool.held @ prices
    start = [pool.plans[i] for i in np.argsort(merit, kind="stable")[:3]]
    return minimise(pool.side.graph, priced(pool.side, overlap, prices), warm_starts=start, effort=effort)


def _one_for_all(
    columns: ColumnPool, endings: ColumnPool, layering: Layering, memory_bytes: float
) -> MixedLayers | None:
    """Return the fastest plan with equal layers within the limit."""
    fitting = (
        (float(columns.seconds[i] + endings.seconds[j]), j, i)
        for j, state in enumerate(_boundaries(endings))
        for i, other in enumerate(_boundaries(columns))
        if other == state and (columns.held[i] + endings.held[j] <= memory_bytes).all()
    )
    best = min(fitting, default=None)
    if best is None:
        return None
    _, ending, column = best
    counts = [layering.n_layers * (i == column) for i in range(len(columns.plans))]
    state = endings.side.boundary_of(endings.plans[ending])
    return _laid_out(layering, columns, endings, Counts(counts, ending), (state,))


def _useful(
    columns: ColumnPool, endings: ColumnPool, layering: Layering, best: MixedLayers | None
) -> tuple[ColumnPool, ColumnPool]:
    """Keep columns of possible faster mixtures; next to much slower ones a solver misses differences."""
    if best is None:
        return columns, endings
    return columns.up_to(best.value * layering.n_layers), endings.up_to(best.value)


def _mixture(
    layering: Layering,
    columns: ColumnPool,
    endings: ColumnPool,
    prices: FloatArray,
    memory_bytes: float,
    best: MixedLayers | None,
) -> MixedLayers | None:
    """Return the best counts of columns over small sets of boundary states, or the best so far."""
    columns = columns.undominated(columns.seconds + columns.held @ prices, MOST_COLUMNS)
    endings = endings.undominated(endings.seconds + endings.held @ prices, MOST_ENDINGS)
    states = list(dict.fromkeys(_boundaries(columns) + _boundaries(endings)))[:MOST_STATES]
    for n in (1, 2, 3):
        for some in combinations(states, n):
            # the cheapest way round through boundary states
            rounds = [(some[0], *rest) for rest in permutations(some[1:])]
            costs = [_round_seconds(layering, order) for order in rounds]
            least = int(np.argmin(costs))
            seconds, order = costs[least], rounds[least]
            layers, ends = (
                pool.chosen([i for i, state in enumerate(_boundaries(pool)) if state in some])
                for pool in (columns, endings)
            )
            if np.isinf(seconds) or not layers.plans or not ends.plans:
                continue
            below = np.inf if best is None else best.value - seconds
            found = best_counts(layers, ends, layering.n_layers, memory_bytes, below=below)
            if found is not None:
                best = _laid_out(layering, layers, ends, found, order)
    return best


def _boundaries(pool: ColumnPool) -> list[Plan]:
    return [pool.side.boundary_of(plan) for plan in pool.plans]


def _round_seconds(layering: Layering, order: tuple[Plan, ...]) -> float:
    return sum(layering.switch_seconds(*pair) for pair in pairwise((*order, order[0])))


def _laid_out(
    layering: Layering, columns: ColumnPool, endings: ColumnPool, found: Counts, order: tuple[Plan, ...]
) -> MixedLayers:
    """Order the layers along the way round that begins with the ends' boundary states."""
    ending = endings.plans[found.ending]
    anchor = order.index(endings.side.boundary_of(ending))
    turned = [*order[anchor:], *order[:anchor]]
    used = [(i, n) for i, n in enumerate(found.counts) if n]
    used.sort(key=lambda pair: turned.index(columns.side.boundary_of(columns.plans[pair[0]])))
    layers = tuple(joined(layering, columns.plans[i], ending) for i, n in used for _ in range(n))
    passed = {columns.side.boundary_of(columns.plans[i]) for i, _ in used} | {turned[0]}
    switch_s = _round_seconds(layering, tuple(state for state in turned if state in passed))
    seconds = sum(n * float(columns.seconds[i]) / layering.n_layers for i, n in used)
    value = seconds + float(endings.seconds[found.ending]) + switch_s
    whole = dict(enumerate(layers[0])) | dict(zip(layering.ends.nodes, ending, strict=True))
    return MixedLayers(layers, tuple(whole.values()), value, switch_s, -np.inf)


@dataclass(frozen=True)
class Counts:
    """Number of layers with each column, and the ending."""

    counts: list[int]
    ending: int


def _program() -> Program:
    """Return a program for small differences: callers scale the costs of columns."""
    program = Program(mip_rel_gap=0.0, mip_abs_gap=0.0)
    program.set_options(primal_feasibility_tolerance=1e-9, mip_feasibility_tolerance=1e-9)
    return program


def best_prices(columns: ColumnPool, endings: ColumnPool, memory_bytes: float) -> FloatArray:
    """Return the seconds a byte at each moment, by the linear program that mixes columns in any shares.

    Notes
    -----
    Where the shares cannot keep to the limit, exceeding it costs a thousand times the slowest plan's seconds
    for each limit's worth.
    """
    n_moments = columns.held.shape[1]
    if np.isinf(memory_bytes):
        return np.zeros(n_moments)
    scale = float(columns.seconds.max() + endings.seconds.max()) or 1.0
    program = _program()
    shares = [program.column(float(s) / scale) for s in columns.seconds]
    ends = [program.column(float(s) / scale) for s in endings.seconds]
    excess = program.column(1e3)
    for some in (shares, ends):
        program.row(1.0, 1.0, some, np.ones(len(some)))
    held = np.vstack([columns.held, endings.held]).T / memory_bytes
    for moment in held:
        program.row(-np.inf, 1.0, [*shares, *ends, excess], np.array([*moment, -1.0]))
    solution = program.optimum()
    assert solution is not None, "shares of columns that may exceed the limit"
    duals = np.maximum(-solution[1][2:], 0.0)
    return np.asarray(duals * scale / memory_bytes)


def best_counts(
    columns: ColumnPool, endings: ColumnPool, n_layers: int, memory_bytes: float, *, below: float
) -> Counts | None:
    """Return the fastest counts; None if they are not faster than `below`, or do not keep to the limit."""
    for slack in (0.0, 1e-6):  # what the solver takes for the limit may lie a rounding above it
        found = _counted(columns, endings, n_layers, memory_bytes * (1 - slack), below)
        if found is None:
            return None
        counts = np.array(found.counts)
        stays = float(counts @ columns.persistent) / n_layers + float(endings.persistent[found.ending])
        passing = (columns.transient[counts > 0] + endings.transient[found.ending]).max()
        if stays + passing <= memory_bytes and sum(found.counts) == n_layers:
            return found
    return None


def _counted(
    columns: ColumnPool, endings: ColumnPool, n_layers: int, limit: float, below: float
) -> Counts | None:
    scale = float(columns.seconds.max() + endings.seconds.max()) or 1.0
    program, is_limited = _program(), bool(np.isfinite(limit))
    layers = [program.column(float(s) / n_layers / scale, upper=n_layers) for s in columns.seconds]
    ends = [program.column(float(s) / scale, upper=1) for s in endings.seconds]
    program.row(n_layers, n_layers, layers, np.ones(len(layers)))
    program.row(1, 1, ends, np.ones(len(ends)))
    if np.isfinite(below):
        costs = np.concatenate([columns.seconds / n_layers, endings.seconds]) / scale
        program.row(-np.inf, below * (1 - 1e-9) / scale, [*layers, *ends], costs)
    if is_limited:
        stays = np.concatenate([columns.persistent / n_layers, endings.persistent]) / limit
        passing = (columns.transient[:, None, :] + endings.transient[None]).max(axis=2) / limit
        for i, layer in enumerate(layers):
            used = program.column(upper=1)
            program.row(-np.inf, 0.0, [layer, used], np.array([1.0, -n_layers]))
            most = float(passing[i].max())
            amounts = stays.copy()
            amounts[len(layers) :] += passing[i]
            program.row(-np.inf, 1.0 + most, [*layers, *ends, used], np.array([*amounts, most]))
    program.make_integer(0, program.n_columns)
    solution = program.optimum()
    if solution is None:
        return None
    values = solution[0]
    return Counts([round(value) for value in values[layers].tolist()], int(np.argmax(values[ends])))
