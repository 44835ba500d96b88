"""What to say when a linear program's solver does not reach the optimum that exists."""

from __future__ import annotations

import numpy as np

from treadle.errors import InfeasibleError
from treadle.synthesis.alltoall.paths import Float64Array

_WIDE = 1e9
"""Ratio of bandwidths from which a solver's tolerances, about 1e-9, are the likely cause."""


def no_optimum(what: str, status: str, bandwidths: Float64Array) -> InfeasibleError:
    """The error for a program that has an optimum, which the solver did not find.

    Parameters
    ----------
    what : str
        The linear program.
    status : str
        How the solver ended.
    bandwidths : array, shape (m,)
        Of the links, in any unit.
    """
    message = f"{what}: solver ended with {status}, expected an optimum"
    ratio = float(np.max(bandwidths, initial=1.0)) / float(np.min(bandwidths, initial=np.inf))
    if ratio >= _WIDE:
        message += (
            f"; the widest link has {ratio:.3g} times the bandwidth of the narrowest: more than "
            "floating point resolves; leave the narrowest links out, or widen them"
        )
    return InfeasibleError(message)
