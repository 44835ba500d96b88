"""What is tried on a problem: factors reckoned by hand, and who is tried at the limits of ranks."""

from __future__ import annotations

import pytest

from treadle.inputs.problem import make_problem
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedulers.sizes import candidate_options
from treadle.schedulers.sizes.candidate_options import (
    _digits,
    _primes,
    _splits,
    entrants,
    factorings,
    format_options,
    left_out,
)
from treadle.synthesis.scheduler import Comparing
from treadle.synthesis.scheduler_options import SizeRequest, StepOptions, TreeOptions
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


@pytest.mark.parametrize(
    ("number", "radix", "digits"),
    [(1, 2, 1), (2, 2, 1), (3, 2, 2), (16, 2, 4), (17, 2, 5), (5, 4, 2), (16, 4, 2), (17, 4, 3)],
)
def test_digits(number: int, radix: int, digits: int) -> None:
    assert _digits(number, radix) == digits


@pytest.mark.parametrize(
    ("fabric", "kind", "factors"),
    [
        ("ring:6", "allreduce", [(6,), (2, 3), (3, 2)]),
        ("ring:6", "alltoall", [(6,), (2, 3), (3, 2), (2, 2, 2), (4, 4)]),
        ("dgx_a100(2, 2)", "allgather", [(4,), (2, 2)]),
        # 8 as four products times 4 as two
        (
            "dgx_a100(4)",
            "allreduce",
            [
                (32,),
                (2, 2, 2, 2, 2),
                (8, 4),
                (8, 2, 2),
                (2, 4, 4),
                (2, 4, 2, 2),
                (4, 2, 4),
                (4, 2, 2, 2),
                (2, 2, 2, 4),
            ],
        ),
        # above 32 ranks a box is one digit
        ("dgx_a100(5)", "allreduce", [(40,), (2, 2, 2, 5), (8, 5)]),
        # and two above 16 ranks of a box
        ("gb200_nvl72(3, 16)", "allreduce", [(48,), (2, 2, 2, 2, 3), (16, 3)]),
        ("gb200_nvl72(2, 18)", "allreduce", [(36,), (2, 2, 3, 3), (18, 2), (3, 6, 2)]),
    ],
)
def test_factors_within_boxes_and_between_them(
    fabric: str, kind: str, factors: list[tuple[int, ...]]
) -> None:
    assert factorings(make_problem(fabric, kind)) == factors


def test_boxes_of_unequal_size_count_as_one() -> None:
    assert factorings(make_problem("dgx_a100(2, 4)", "allreduce", ranks="0-4,5")) == [(6,), (2, 3), (3, 2)]


def test_options_in_words() -> None:
    assert format_options(TreeOptions()) == ""
    assert format_options(TreeOptions(trees=3, multicast=True)) == "trees=3 multicast=1"
    words = format_options(StepOptions(factors=(2, 3), exchanged=(), size=SizeRequest(4096, 1e-6)))
    assert words == "factors=2,3 exchanged=none size_bytes=4096"


def titles(fabric: str, kind: str, *names: str) -> list[str]:
    chosen = [find_scheduler(name) for name in names]
    found = entrants(make_problem(fabric, kind), 1e-6, chosen)
    return [f"{one.name} {format_options(options)}".strip() for one, options in found]


def test_the_defaults_first_and_then_what_else_may_pay() -> None:
    assert titles("ring:6", "allgather", "forestcoll") == [
        "forestcoll",
        "forestcoll trees=1",
        "forestcoll trees=2",
        "forestcoll trees=4",
    ]
    found = titles("ring:6", "allreduce", "factor-allreduce")
    assert found[0] == "factor-allreduce"
    assert len(found) == len(set(found))
    for radix in (2, 3, 4):
        assert f"factor-allreduce factors={radix}" in found
    assert "factor-allreduce factors=8" not in found, "no more than there are ranks"
    assert "factor-allreduce factors=6" not in found or "exchanged" in find_scheduler(found[0]).options
    exchanged = [one.partition("factors=2,3 exchanged=")[2] for one in found if "factors=2,3 " in one]
    assert exchanged == ["1,2", "2", "none"]


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


def test_textbooks_are_tried_on_few_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """And options: on more ranks schedulers are tried with their defaults only."""
    monkeypatch.setattr(candidate_options, "_MOST_VARIED", 5)
    few, many = names("ring:5", "allgather"), names("ring:6", "allgather")

    def is_textbook(name: str) -> bool:
        one = find_scheduler(name)
        return one.is_baseline and one.comparing is not Comparing.PRACTICE

    assert {name for name in few if is_textbook(name)}
    assert not {name for name in many if is_textbook(name)}
    assert {name for name in many if find_scheduler(name).is_baseline}, "common practice stays"
    assert titles("ring:6", "allgather", "forestcoll") == ["forestcoll"]
    assert len(titles("ring:5", "allgather", "forestcoll")) > 1
    assert left_out(make_problem("ring:5", "allgather")) == []
    told = left_out(make_problem("ring:6", "allgather"))
    assert told == sorted(told)
    assert set(told) >= {name for name in few if is_textbook(name)}
    assert "forestcoll" not in told


def test_switches_that_copy_double_what_is_tried() -> None:
    """Each of the options with and without them."""
    plain = titles("dgx_h100(1)", "allgather", "forestcoll")
    able = titles("dgx_h100(1, nvls=True)", "allgather", "forestcoll")
    assert able == [word for one in plain for word in (one, f"{one} multicast=1")]
    with_sums = titles("dgx_h100(1, nvls=True)", "reduce-scatter", "forestcoll")
    assert [one for one in with_sums if "multicast" in one]
