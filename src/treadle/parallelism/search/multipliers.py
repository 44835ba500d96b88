"""The best weights of a minimax by Kelley's cutting planes: each plan found is a cut over the weights.

For weights a of the forms of each group (they sum up to the group's weight) and mu >= 0 of the limited forms,

    theta(a, mu) = min over plans of sum a f + sum mu (f - limit)

is a lower bound on every plan that keeps to the limits. theta is concave, each plan bounds it from above by a
linear function, and a small linear program over the plans found so far says where to look next: half way
between its answer and the best weights so far, which tames the jumps of the first steps. Limits come in when
a plan breaks them. Wherever theta (bounded by `reweighted_trees`, so the answer is a bound whether or not
that is tight) shows that a state costs more than the cutoff, the state goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from treadle.arrays import Int64Array
from treadle.math.lp import Program
from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray
from treadle.parallelism.search.local_moves import improved
from treadle.parallelism.search.minimax import Minimax
from treadle.parallelism.search.reweighted_trees import UNIT_ROUNDOFF, TreeBound, tree_bound
from treadle.parallelism.search.slices import Domains, Slice, consistent

MOST_MULTIPLIER = 1e3
"""Objectives paid for exceeding a limit by itself: a plan 0.1% above it then costs one more."""
_MOST_LEFT, _MOST_LEFT_OF_FEW, _FEW_STATES = 0.95, 0.5, 1500
"""Shares of states above which they are not cut out: of few states a call of message passing is quicker."""

Support = tuple[tuple[float, tuple[int, ...]], ...]
"""Plans that a linear program mixes, with their shares, heaviest first."""


@dataclass
class Columns:
    """Plans found so far, with their quantities, and the best that keeps to the limits.

    Parameters
    ----------
    graph : FactorGraph
    aim : Minimax
    plans : mapping
        Plan -> its quantities.
    states : list of int arrays of shape (nodes,)
        Of each plan, numbered through all nodes.
    best, value
        The best plan that keeps to the limits, and its value.
    """

    graph: FactorGraph
    aim: Minimax
    plans: dict[tuple[int, ...], FloatArray] = field(default_factory=dict)
    states: list[Int64Array] = field(default_factory=list)
    best: tuple[int, ...] | None = None
    value: float = np.inf

    def within(self, domains: Domains) -> list[tuple[int, ...]]:
        """Return the plans all of whose states are in the domains."""
        if not self.plans:
            return []
        left = np.zeros(sum(self.graph.sizes), dtype=np.bool_)
        for start, states in zip(self.graph.starts[:-1], domains, strict=True):
            left[start + states] = True
        plans = list(self.plans)
        return [plans[i] for i in np.flatnonzero(left[np.array(self.states)].all(axis=1))]

    def add(self, plan: tuple[int, ...]) -> bool:
        """Take an allowed plan in; whether it is new."""
        if plan in self.plans:
            return False
        amounts = self.graph.amounts(plan)
        self.plans[plan] = amounts
        self.states.append(self.graph.starts[:-1] + np.array(plan, dtype=np.int64))
        if self.aim.fits(amounts) and (value := self.aim.value(amounts)) < self.value:
            self.best, self.value = plan, value
        return True


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Result of a search over weights.

    Parameters
    ----------
    bound : float
        No plan of the domains that keeps to the limits costs less, or it costs more than the cutoff.
    weights : array of shape (forms,)
        That gave the bound.
    domains : tuple of int arrays, optional
        What pruning left; None where nothing was left.
    messages : array
    support : tuple of (float, plan)
        Plans that the linear program mixes, heaviest first.
    n_passes : int
        Calls of message passing.
    """

    bound: float
    weights: FloatArray
    domains: Domains | None
    messages: FloatArray
    support: Support
    n_passes: int


def even_weights(aim: Minimax) -> FloatArray:
    """Return the equal weights for all forms of a group, no limit."""
    weights = np.zeros(len(aim.forms))
    for weight, forms in aim.groups:
        weights[list(forms)] = weight / len(forms)
    return weights


def theta(
    part: Slice, aim: Minimax, weights: FloatArray, messages: FloatArray, *, tolerance: float = 1e-4
) -> TreeBound:
    """Bound of the relaxed problem at given weights, the limits' share taken off, safe against rounding."""
    weights = weights.copy()
    for weight, forms in aim.groups:  # what sums up to more than the group's weight would be no bound
        total = float(weights[list(forms)].sum())
        if total > weight:
            weights[list(forms)] *= weight / total
    found = tree_bound(part, part.energies(weights @ aim.forms), messages, tolerance=tolerance)
    limited = list(aim.limited)
    paid = float(weights[limited].sum()) * aim.limit if weights[limited].any() else 0.0
    # sums of weights and the product round by (forms + 2) u of what is taken off; the group's weights may sum
    # up to a few u too much
    n = len(weights) + 4
    rounding = 2 * n * UNIT_ROUNDOFF * (paid + abs(found.bound))
    return replace(found, bound=found.bound - paid - rounding)


def climb(
    part: Slice,
    columns: Columns,
    weights: FloatArray,
    messages: FloatArray,
    *,
    cut_at: float,
    n_passes: int,
    tolerance: float = 1e-3,
    probes_weights: bool = True,
    prunes: bool = True,
    must_stop: Callable[[], bool] = lambda: False,
) -> DualPoint:
    """Raise theta over the weights, removing states on the way.

    Parameters
    ----------
    part : Slice
    columns : Columns
        Added to.
    weights, messages
        To begin with.
    cut_at : float
        Plans above this fraction of the best known value need not be distinguished: states go, and the climb
        ends.
    n_passes : int
        Most calls of message passing.
    tolerance : float
        Relative distance to the linear program's value at which to stop.
    probes_weights : bool
        Where plans do not show where the bound rises, try steps along each weight.
    prunes : bool
        Whether states go; else the bound is one over all plans of the slice.
    must_stop : callable
        Asked after each call of message passing: whether there is time for no more.
    """
    aim = columns.aim
    best_bound, best_weights = -np.inf, weights
    support: Support = ()
    # how far a plan that message passing chose lies above the bound at the weights of that call
    shifts: dict[tuple[int, ...], float] = {}
    here, stale, done = weights, 0, 0
    steps: Iterator[tuple[FloatArray, FloatArray]] | None = None
    while done < n_passes:
        found = theta(part, aim, here, messages)
        done += 1
        messages = found.messages
        stale = 0 if found.bound > best_bound + 0.1 * tolerance * abs(best_bound) else stale + 1
        if found.bound > best_bound:
            best_bound, best_weights = found.bound, here
        if found.labels:
            plan, price = part.plan(found.labels), float(here[list(aim.limited)].sum())
            if columns.add(plan) and (done == 1 or done % 4 == 0):
                columns.add(part.plan(improved(part, aim, found.labels, price=price)))
            paid = price * aim.limit if price else 0.0  # the limit may be infinite
            energy = float(here @ (aim.forms @ columns.plans[plan])) - paid
            shifts[plan] = max(energy - found.bound, 0.0)
        cutoff = columns.value * cut_at
        if best_bound >= cutoff or must_stop():
            break
        smaller = _pruned(part, found, cutoff) if prunes else part
        if smaller is None:
            return DualPoint(cutoff, best_weights, None, messages, (), done)
        part = smaller
        master, wanted, support = _master(part, columns, best_weights, shifts)
        # cuts that were not lowered bound theta from above: then the program's value proves the best weights
        is_tight = all(shifts.get(plan, 0.0) <= tolerance * abs(best_bound) for _, plan in support)
        if master - best_bound > tolerance * abs(master) and stale <= 4:
            here = (wanted + (0, 1, 3)[stale % 3] * best_weights) / (1, 2, 4)[stale % 3]
        elif is_tight or not probes_weights:
            break
        else:  # the cuts of plans do not tell where the relaxation goes: try steps
            steps = _steps(aim, best_weights) if steps is None else steps
            trial = next(steps, None)
            if trial is None:
                break
            here = best_weights * trial[0] + trial[1]
    return DualPoint(best_bound, best_weights, part.domains, messages, support, done)


def _steps(aim: Minimax, weights: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield ever shorter moves along one coordinate each: a group's weight to one form; each limit's weight.

    A move is what weights are multiplied by, and what is added to them.
    """

    def move(forms: Sequence[int], by: float) -> tuple[FloatArray, FloatArray]:
        factors = np.ones(len(weights))
        factors[list(forms)] = by
        return factors, np.zeros(len(weights))

    paid = [form for form in aim.limited if weights[form] > 0] if np.isfinite(aim.limit) else []
    for share in (0.4, 0.2, 0.1, 0.05, 0.02):
        for weight, forms in aim.groups:
            for chosen in forms if len(forms) > 1 else ():
                factors, added = move(forms, 1 - share)
                added[chosen] = weight * share
                yield factors, added
        for some in [paid, *([form] for form in paid)] if len(paid) > 1 else [paid] if paid else []:
            yield move(some, 1 + share)
            yield move(some, 1 - share)


def _pruned(part: Slice, found: TreeBound, cutoff: float) -> Slice | None:
    """Return the slice without states above the cutoff; itself where few go, None where none stay."""
    if not np.isfinite(cutoff):
        return part
    keep = [found.bound + slack <= cutoff for slack in found.slack]
    left = sum(int(mask.sum()) for mask in keep)
    if left > (_MOST_LEFT if sum(part.sizes) > _FEW_STATES else _MOST_LEFT_OF_FEW) * sum(part.sizes):
        return part
    kept = tuple(states[mask] for states, mask in zip(part.domains, keep, strict=True))
    domains = consistent(part.graph, kept)
    return None if domains is None else Slice(part.graph, domains)


def _master(
    part: Slice, columns: Columns, weights: FloatArray, shifts: dict[tuple[int, ...], float]
) -> tuple[float, FloatArray, Support]:
    """Maximise theta's model over the plans of the slice: value, weights, and the plans that hold it down.

    Where the bound is not tight, a plan's cut is lowered by what it lay above the bound when it was last
    chosen: the cut of the mixture of states that the relaxation prefers is near it. Only where to look next
    depends on it.
    """
    aim = columns.aim
    inside = columns.within(part.domains)
    if not inside:
        return np.inf, weights, ()
    amounts = np.array([columns.plans[plan] for plan in inside])
    forms = amounts @ aim.forms.T
    limited = np.array(aim.limited if np.isfinite(aim.limit) else (), dtype=np.int64)
    limited = limited[(forms[:, limited] > aim.limit).any(axis=0) | (weights[limited] > 0)]
    scale = columns.value if np.isfinite(columns.value) else float(aim.values(amounts).max())
    scale = scale if scale > 0 else 1.0
    over = (forms[:, limited] - aim.limit) / aim.limit if len(limited) else forms[:, limited]
    grouped = [form for _, group in aim.groups for form in group]
    owner = [weight for weight, group in aim.groups for _ in group]
    gains = forms[:, grouped] * np.array(owner) / scale
    lowered = np.array([-shifts.get(plan, 0.0) / scale for plan in inside])
    rows = np.hstack([np.ones((len(inside), 1)), -gains, -over])
    value, point, duals = _solved(rows, lowered, [len(group) for _, group in aim.groups], len(limited))
    found = np.zeros(len(aim.forms))
    found[grouped] = point[: len(grouped)] * np.array(owner)
    if len(limited):
        found[limited] = point[len(grouped) :] * scale / aim.limit
    order = np.argsort(-duals, kind="stable")
    return value * scale, found, tuple((float(duals[i]), inside[i]) for i in order if duals[i] > 1e-6)


def _solved(
    rows: FloatArray, ends: FloatArray, groups: Sequence[int], n_limits: int
) -> tuple[float, FloatArray, FloatArray]:
    """Maximise the first variable, all `rows` at most `ends`, each group's variables a convex combination."""
    lp = Program()
    lp.column(-1.0)
    lp.solver.changeColBounds(0, -np.inf, np.inf)
    upper = np.repeat([1.0, MOST_MULTIPLIER], [sum(groups), n_limits])
    for most in upper.tolist():
        lp.column(upper=most)
    for row, end in zip(rows, ends, strict=True):
        lp.row(-np.inf, float(end), np.arange(len(row)), row)
    first = 1
    for size in groups:
        lp.row(1.0, 1.0, np.arange(first, first + size), np.ones(size))
        first += size
    found = lp.optimum()
    assert found is not None, lp.status
    values, duals = found
    return float(values[0]), np.clip(values[1:], 0.0, upper), np.abs(duals[: len(rows)])
