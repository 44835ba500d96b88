"""Time of double binary trees on their own fabric, by formula, and the best number of chunks."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.schedules.steps.steps import MAX_CHUNKS


def double_binary_tree_time_s(
    n: int, chunks: int, *, size_bytes: float, alpha_s: float, bandwidth_bytes_per_s: float
) -> float:
    """Allreduce time of `double_binary_tree_steps` on `double_binary_tree(n)`.

    Parameters
    ----------
    n : int
        Nodes, at least 2.
    chunks : int
        Per half of the buffer.
    size_bytes : float
        The buffer M.
    alpha_s : float
        Per step.
    bandwidth_bytes_per_s : float
        Of one link.

    Examples
    --------
    >>> link = {"alpha_s": 10e-6, "bandwidth_bytes_per_s": 12.5e9 / 4}
    >>> round(double_binary_tree_time_s(1024, 12, size_bytes=2**20, **link) * 1e6)
    1007
    """
    steps = 2 * (n.bit_length() - 2 + chunks)
    return steps * (alpha_s + size_bytes / (2 * chunks * bandwidth_bytes_per_s))


def best_chunk_count(n: int, *, size_bytes: float, alpha_s: float, bandwidth_bytes_per_s: float) -> int:
    """The number of chunks with the least `double_binary_tree_time_s`; the smallest such.

    Raises
    ------
    ScheduleError
        If there are fewer than two nodes, or size, latency or bandwidth is not positive.

    Notes
    -----
    (h - 1 + k) (alpha + s / k), with s the time of half the buffer on a link, is convex in k and least at
    sqrt((h - 1) s / alpha); one of the two integers around it is best.

    Examples
    --------
    >>> best_chunk_count(1024, size_bytes=2**20, alpha_s=10e-6, bandwidth_bytes_per_s=12.5e9 / 4)
    12
    """
    if n < 2:
        raise ScheduleError(f"best_chunk_count: n must be at least 2, found {n}")
    for key, value in (
        ("size_bytes", size_bytes),
        ("alpha_s", alpha_s),
        ("bandwidth_bytes_per_s", bandwidth_bytes_per_s),
    ):
        if not value > 0:
            raise ScheduleError(f"best_chunk_count: {key} must be positive, found {value}")
    half_s = size_bytes / (2 * bandwidth_bytes_per_s)
    below = int(min(((n.bit_length() - 2) * half_s / alpha_s) ** 0.5, MAX_CHUNKS - 1))
    return min(
        (max(1, below), below + 1),
        key=lambda chunks: double_binary_tree_time_s(
            n,
            chunks,
            size_bytes=size_bytes,
            alpha_s=alpha_s,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        ),
    )
