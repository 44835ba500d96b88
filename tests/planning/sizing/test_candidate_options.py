"""What is tried on a problem: factors reckoned by hand, and who is tried at the limits of ranks."""

from __future__ import annotations

import pytest

from treadle.inputs.problem import make_problem
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedulers.sizes import candidate_options
from treadle.schedulers.sizes.candidate_options import (
    _primes,
    _splits,
    entrants,
    factorings,
    format_options,
)
from treadle.synthesis.scheduler import Comparing
from treadle.synthesis.scheduler_options import SizeRequest
from treadle.synthesis.sizes.boxed import nearest_factor


@pytest.mark.parametrize(
    ("number", "nearest", "primes", "splits"),
    [
        (1, 1, (), [(1,)]),
        (2, 1, (2,), [(2,)]),
        (7, 1, (7,), [(7,)]),
        (4, 2, (2, 2), [(4,), (2, 2)]),
        (6, 2, (2, 3), [(6,), (2, 3), (3, 2)]),
        (8, 2, (2, 2, 2), [(8,), (2, 4), (4, 2), (2, 2, 2)]),
        (12, 3, (2, 2, 3), [(12,), (3, 4), (4, 3), (2, 2, 3)]),
        (16, 4, (2, 2, 2, 2), [(16,), (4, 4), (2, 2, 4), (2, 2, 2, 2)]),
        (27, 3, (3, 3, 3), [(27,), (3, 9), (9, 3), (3, 3, 3)]),
        (30, 5, (2, 3, 5), [(30,), (5, 6), (6, 5), (3, 2, 5), (2, 3, 5)]),
        (64, 8, (2,) * 6, [(64,), (8, 8), (4, 4, 4), (2,) * 6]),
    ],
)
def test_numbers_as_products(
    number: int, nearest: int, primes: tuple[int, ...], splits: list[tuple[int, ...]]
) -> None:
    """Itself, two near the root, three from the cube root on, and primes."""
    assert (nearest_factor(number), _primes(number), _splits(number)) == (nearest, primes, splits)


def test_boxes_of_unequal_size_count_as_one() -> None:
    assert factorings(make_problem("dgx_a100(2, 4)", "allreduce", ranks="0-4,5")) == [(6,), (2, 3), (3, 2)]


def titles(fabric: str, kind: str, *names: str) -> list[str]:
    chosen = [find_scheduler(name) for name in names]
    found = entrants(make_problem(fabric, kind), 1e-6, chosen)
    return [f"{one.name} {format_options(options)}".strip() for one, options in found]


@pytest.mark.parametrize("radix", [2, 3, 4, 8])
def test_radices_below_the_number_of_ranks(radix: int) -> None:
    for ranks in (radix, radix + 1):
        found = titles(f"ring:{max(3, ranks)}", "allreduce", "factor-allreduce")
        assert (f"factor-allreduce factors={radix}" in found) == (radix < max(3, ranks))


def test_sizes_that_schedules_are_made_for() -> None:
    """Seconds of a message go with each size."""
    takers = [
        (one, options)
        for one, options in entrants(make_problem("ring:5", "allgather"), 3e-6)
        if getattr(options, "size", None) is not None
    ]
    by_name: dict[str, list[SizeRequest]] = {}
    for one, options in takers:
        by_name.setdefault(one.name, []).append(options.size)  # type: ignore[attr-defined]
    assert by_name
    for name, sizes in by_name.items():
        assert set(sizes) >= {SizeRequest(size, 3e-6) for size in (2**14, 2**20, 2**26)}, name


def names(fabric: str, kind: str) -> set[str]:
    return {one.name for one, _ in entrants(make_problem(fabric, kind), 1e-6)}


def test_slow_schedulers_are_tried_on_few_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_options, "_MOST_SLOW", 5)
    few, many = names("ring:5", "allgather"), names("ring:6", "allgather")
    slow = {name for name in few if find_scheduler(name).comparing is Comparing.SMALL}
    assert slow
    assert not {name for name in many if find_scheduler(name).comparing is Comparing.SMALL}
