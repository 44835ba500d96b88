"""Objective: a weighted sum of maxima of linear forms of the quantities, some forms below limits.

The step of a model is the sum over sections of repeats * max(compute, communication); memory holds at each
moment persistent + transient bytes below a limit. The smallest memory that fits is the maximum over moments,
without limits. All three are a `Minimax`, and so are a step without overlap and one whose overlap is counted
over the whole model.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from treadle.arrays import offsets_of
from treadle.parallelism.search.core_search_values import MinimaxForms
from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray


class Overlap(Enum):
    """Scope of overlap of communication and computation."""

    NONE = "none"
    LAYER = "layer"
    MODEL = "model"


@dataclass(frozen=True, eq=False)
class Minimax:
    """Minimise the sum over groups of weight * max of the group's forms, subject to limits.

    Parameters
    ----------
    forms : array of shape (forms, quantities)
        Coefficients, not negative.
    groups : tuple of (float, tuple of int)
        Weight, and the forms of which the largest counts.
    limited : tuple of int
        Forms that may not exceed `limit`.
    limit : float
        Infinity where nothing is limited.
    """

    forms: FloatArray
    groups: tuple[tuple[float, tuple[int, ...]], ...]
    limited: tuple[int, ...] = ()
    limit: float = np.inf

    @cached_property
    def core_forms(self) -> MinimaxForms:
        """Forms as the core reads them; a form counts in one group at most."""
        form, quantity = np.nonzero(self.forms)
        group = np.full(len(self.forms), -1, dtype=np.int32)
        for number, (_, forms) in enumerate(self.groups):
            group[list(forms)] = number
        limited = np.zeros(len(self.forms), dtype=np.int32)
        limited[list(self.limited)] = 1
        return MinimaxForms(
            offsets_of(np.bincount(form, minlength=len(self.forms))).astype(np.int32),
            quantity.astype(np.int32),
            self.forms[form, quantity],
            group,
            np.array([weight for weight, _ in self.groups], dtype=np.float64),
            limited,
            float(self.limit),
        )

    def value(self, amounts: FloatArray) -> float:
        """Return the value of a plan with these quantities, whether or not it keeps to the limits."""
        found = self.forms @ amounts
        return sum(weight * max(float(found[i]) for i in forms) for weight, forms in self.groups)

    def values(self, amounts: FloatArray) -> FloatArray:
        """Return the values of many plans: shape (plans, quantities) to (plans,)."""
        found = amounts @ self.forms.T
        total = np.zeros(len(amounts))
        for weight, forms in self.groups:
            total += weight * found[:, list(forms)].max(axis=1)
        return total

    def excess(self, amounts: FloatArray) -> FloatArray:
        """Return the excess of each plan's largest limited form over the limit, or 0: shape (plans,)."""
        if not self.limited or np.isinf(self.limit):
            return np.zeros(len(amounts))
        found = amounts @ self.forms[list(self.limited)].T
        return np.asarray(np.maximum(found.max(axis=1) - self.limit, 0.0))

    def fits(self, amounts: FloatArray) -> bool:
        """Whether a plan with these quantities keeps to the limits."""
        return not self.excess(amounts[None, :])[0] > 0


def _moments(graph: FactorGraph) -> FloatArray:
    """Return the forms of the bytes held at each moment; of the persistent ones without moments."""
    names = graph.quantities
    rows = np.eye(max(names.n_moments, 1), names.count, names.persistent + 1)
    rows[:, names.persistent] = 1
    return rows


def step_time(
    graph: FactorGraph, *, overlap: Overlap = Overlap.LAYER, memory_bytes: float = np.inf
) -> Minimax:
    """Return the objective: seconds of a step, below a limit of memory.

    Notes
    -----
    Under `Overlap.MODEL` the maximum is taken of the totals, as in section 5.4 of the dissertation. With
    contention, the shorter of computing and communicating takes ``kappa`` times as long while both run, and
    so adds ``kappa - 1`` times itself to the longer one.
    """
    names, moments = graph.quantities, _moments(graph)
    one_section = np.eye(names.n_sections, names.count)
    pairs = np.stack([one_section, np.roll(one_section, names.n_sections, axis=1)], axis=1)
    """A row for each section's serial part and one for its overlapped part."""
    pairs = pairs + (graph.kappa - 1) * pairs[:, ::-1]
    groups: tuple[tuple[float, tuple[int, ...]], ...]
    if overlap is Overlap.LAYER:
        rows = pairs.reshape(-1, names.count)
        groups = tuple((float(n), (2 * at, 2 * at + 1)) for at, n in enumerate(graph.repeats))
    else:
        rows = np.tensordot(np.array(graph.repeats, np.float64), pairs, axes=1)
        rows = rows if overlap is Overlap.MODEL else rows.sum(axis=0, keepdims=True) / graph.kappa
        groups = ((1.0, tuple(range(len(rows)))),)
    limited = range(len(rows), len(rows) + len(moments))
    return Minimax(np.vstack([rows, moments]), groups, tuple(limited), memory_bytes)


def peak_memory(graph: FactorGraph) -> Minimax:
    """Return the objective: bytes of the fullest moment."""
    moments = _moments(graph)
    return Minimax(moments, ((1.0, tuple(range(len(moments)))),))
