"""The record of a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis.strategies import SearchStrategy

from ..finding import Case


@dataclass(frozen=True)
class Target:
    """Something that is searched for faults.

    Parameters
    ----------
    name : str
    cases : strategy
        Of JSON values, so that a case can be kept, and checked by another commit.
    check : callable
        Returns if nothing is wrong with a case; raises WrongAnswerError if an independent check fails,
        UnservedError if it was rightly refused. Every other exception is a finding.
    n_cases : int
        Of a round: some seconds of work.
    """

    name: str
    cases: SearchStrategy[Case]
    check: Callable[[Case], None]
    n_cases: int
