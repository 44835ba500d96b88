"""Schedulers that are compared over sizes, and the options of each.

Nothing here knows schedulers by name: the trials follow from the options that a record supports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, product
from math import prod

from treadle.errors import TreadleError
from treadle.inputs.problem import Problem
from treadle.schedulers.given_options import record_given
from treadle.schedulers.scheduler_records import FEW_RANKS
from treadle.schedulers.sizes.fitting import fitting
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.scheduler import Comparing, Scheduler
from treadle.synthesis.scheduler_options import OPTIONS_OF, SchedulerOptions, SizeRequest
from treadle.synthesis.sizes.boxed import nearest_factor
from treadle.synthesis.sizes.spanning_exchanges import few_ranks
from treadle.synthesis.trees.baselines.boxes import find_boxes

Entrant = tuple[Scheduler, SchedulerOptions]

_FEW_TREES = (1, 2, 4)
_RADICES = (2, 3, 4, 8)
_MADE_FOR = (2**14, 2**20, 2**26)
"""Bytes that schedules are made for where their scheduler takes a size."""
_MOST_SLOW = 16
"""Ranks up to which schedulers that take their time are tried without being named."""
_MOST_DIVIDED = 32
"""Ranks up to which ranks of a box are numbered by several digits, in every way."""
_WIDE = 16
"""Ranks of a box above which two digits are worth a trial whatever the number of boxes: to send to all others
one by one takes longer there than a second message."""
_MOST_VARIED = 512
"""Ranks beyond which schedulers are tried with their defaults only, textbooks' and others' not at all."""


def entrants(problem: Problem, alpha_s: float, algorithms: Sequence[Scheduler] = ()) -> list[Entrant]:
    """Schedulers with options, each worth a trial at some size.

    Parameters
    ----------
    problem : Problem
    alpha_s : float
        What a message takes besides its bytes, seconds.
    algorithms : sequence of Scheduler
        Only these; default all that fit.
    """
    chosen = list(algorithms) or [
        one
        for one in fitting(problem, at_sizes=True)
        # what a library runs at large sizes is one of the other baselines
        if one.comparing is not Comparing.MACHINES
        if one.comparing is not Comparing.SMALL or problem.collective.n_ranks <= _MOST_SLOW
        if not (_is_textbook(one) and problem.collective.n_ranks > _MOST_VARIED)
    ]
    return [
        (scheduler, options)
        for scheduler in chosen
        if scheduler.unsupported(problem.topology, problem.collective) is None
        for options in _varied(problem, scheduler, alpha_s)
    ]


def left_out(problem: Problem) -> list[str]:
    """Schedulers that would be tried on fewer ranks."""
    if problem.collective.n_ranks <= _MOST_VARIED:
        return []
    is_large = few_ranks(problem.topology, problem.collective) is not None
    tried = fitting(problem, at_sizes=True)
    return sorted(
        {one.name for one in tried if _is_textbook(one) or (is_large and FEW_RANKS in one.requirements)}
    )


def _is_textbook(one: Scheduler) -> bool:
    """Whether it is a textbook's or another project's, not what libraries do at such sizes."""
    return one.is_baseline and one.comparing is not Comparing.PRACTICE


def format_options(options: SchedulerOptions) -> str:
    """Format the options beyond the defaults: ``factors=4,4 exchanged=2``."""
    asked = record_given(options)
    words = {name.removeprefix("asked_"): value for name, value in asked.items()}
    return " ".join(f"{name}={value or 'none'}" for name, value in words.items() if name != "alpha_s")


def _varied(problem: Problem, scheduler: Scheduler, alpha_s: float) -> Iterator[SchedulerOptions]:
    """The defaults first, then what else may pay."""
    kind = OPTIONS_OF[scheduler.form]
    asked: list[Mapping[str, object]] = [{}]
    if problem.collective.groups is None and problem.collective.n_ranks <= _MOST_VARIED:
        asked = [
            *scheduler.trials(problem.topology, problem.collective),
            *_asked(problem, scheduler, alpha_s),
        ]
    is_able = problem.topology.multicast.any() or problem.topology.aggregation.any()
    if "multicast" in scheduler.supported_options and is_able:
        asked = [{**one, **more} for one in asked for more in ({}, {"multicast": True})]
    for number, one in enumerate(asked):
        if one in asked[:number]:
            continue
        try:
            yield kind(**one)  # type: ignore[arg-type]
        except TreadleError:
            continue


def _asked(problem: Problem, scheduler: Scheduler, alpha_s: float) -> Iterator[Mapping[str, object]]:
    heeded = scheduler.options
    if "trees" in heeded:
        yield from ({"trees": trees} for trees in _FEW_TREES)
    if "chunks" in heeded and not {"rounds", "factors"} & set(heeded):
        yield {"chunks": 1}
    if "size" in heeded:
        yield from ({"size": SizeRequest(size, alpha_s)} for size in _MADE_FOR)
    if "factors" not in heeded:
        return
    yield from ({"factors": (radix,)} for radix in _RADICES if radix < problem.collective.n_ranks)
    for factors in factorings(problem):
        if "exchanged" not in heeded:
            yield {"factors": factors}
            continue
        places = range(1, len(factors) + 1)
        # data shrink factor by factor, so that whole sums are exchanged over the last ones
        yield from ({"factors": factors, "exchanged": tuple(places[first:])} for first in range(len(places)))
        yield {"factors": factors, "exchanged": ()}


def factorings(problem: Problem) -> list[tuple[int, ...]]:
    """Return radices to try, from the digit that distinguishes neighbours: inside boxes, then between them.

    Notes
    -----
    Each part as one factor, as the two nearest to each other, as three, or as primes. Bruck's radices, whose
    product is above the number of ranks, are for exchanges that allow it.
    """
    n = problem.collective.n_ranks
    boxes = find_boxes(problem.topology, problem.collective)
    sizes = {len(box) for box in boxes}
    if len(boxes) == 1 or len(sizes) > 1:
        found = [*_splits(n)]
    else:
        size = sizes.pop()
        inner: list[tuple[int, ...]] = _splits(size) if n <= _MOST_DIVIDED else [(size,)]
        if n > _MOST_DIVIDED and size > _WIDE and nearest_factor(size) > 1:
            inner.append((nearest_factor(size), size // nearest_factor(size)))
        found = [(n,), _primes(n), *((*one, *other) for one, other in product(inner, _splits(n // size)))]
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        found += [(radix,) * _digits(n, radix) for radix in (2, 4)]
    return list(dict.fromkeys(found))


def _digits(n: int, radix: int) -> int:
    return next(digits for digits in count(1) if radix**digits >= n)


def _splits(n: int) -> list[tuple[int, ...]]:
    """A number as products: itself, two near its root in both orders, three near its cube root, primes."""
    found: list[tuple[int, ...]] = [(n,)]
    near = nearest_factor(n)
    if near > 1:
        found += [(near, n // near), (n // near, near)]
        third = max(one for one in range(1, n + 1) if n % one == 0 and one**3 <= n)
        rest = n // third
        if third > 1 and nearest_factor(rest) > 1:
            found.append((third, nearest_factor(rest), rest // nearest_factor(rest)))
        found.append(_primes(n))
    return [one for one in dict.fromkeys(found) if prod(one) == n]


def _primes(n: int) -> tuple[int, ...]:
    found, factor = [], 2
    while n > 1:
        while n % factor == 0:
            found.append(factor)
            n //= factor
        factor += 1
    return tuple(found)
