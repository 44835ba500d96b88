"""Times of double binary trees as the dissertation has them, by formula."""

from __future__ import annotations

from math import isqrt


def published_tree_time_s(n: int, alpha_s: float, transfer_s: float) -> float:
    """Return the allreduce time of double binary trees as the dissertation's tables and figure 3.7 have it.

    Parameters
    ----------
    n : int
        Nodes, at least 2.
    alpha_s : float
        Per step, positive.
    transfer_s : float
        M/B, seconds.

    Notes
    -----
    Not stated there; 2 (2 h - 1 + k) (alpha + 2 M / (k B)) with h = floor(log2 N) and the best power of two k
    gives the caption of table 3.4, 1434 us at N = 1024 (k = 16): nodes send to one child at a time.

    Examples
    --------
    >>> round(published_tree_time_s(1024, 10e-6, 2**20 / 12.5e9) * 1e6)
    1434
    """
    height = n.bit_length() - 1
    # the best k is at most sqrt(2 h M / (B alpha)); a power of two up to twice that is enough
    most = 2 * isqrt(round(2 * height * transfer_s / alpha_s)) + 2
    pieces = [2**i for i in range(most.bit_length() + 1)]
    times: list[float] = [2 * (2 * height - 1 + k) * (alpha_s + 2 * transfer_s / k) for k in pieces]
    return min(times)
