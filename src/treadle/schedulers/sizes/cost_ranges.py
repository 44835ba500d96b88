"""Which choices of a set would fall otherwise if the cost model were as its bands allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol as Shape

from treadle.context import context
from treadle.schedulers.sizes.selection import SelectionRules, SizeCandidate
from treadle.simulation.costs.cost_model import MAX_DENOMINATOR, CostModel, LinkClass

_RATES = ("efficiency", "channel_bytes_per_s", "reduction_bytes_per_s")


class _Row(Shape):
    """A size and what serves it."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def title(self) -> str: ...


@dataclass(frozen=True)
class UncertainChoice:
    """A size at which another schedule is faster somewhere in the bands.

    Parameters
    ----------
    size_bytes : int
    chosen, other : str
        Titles.
    gain : float
        Share of the chosen one's time that the other saves there.
    corner : str
        Which figures were moved, and where to.
    """

    size_bytes: int
    chosen: str
    other: str
    gain: float
    corner: str


def uncertain_choices(
    rules: SelectionRules, racers: Sequence[SizeCandidate], rows: Sequence[_Row]
) -> tuple[UncertainChoice, ...]:
    """Choices that would fall otherwise at a corner of the model's bands.

    Parameters
    ----------
    rules : SelectionRules
        Of a cost model with bands; without any there are no doubts to be had.
    racers : sequence of Racer
    rows : sequence of SizedChoice
        What was chosen.

    Returns
    -------
    tuple of Doubt
        For each size next to another choice the greatest gain, if any.

    Notes
    -----
    Corners: latencies in the box, latencies elsewhere, launches and rates, each at its lower and its upper
    ends while the rest stays, then all of them. Those between which is chosen are the set's own schedules.
    """
    if not rules.cost_model.bands:
        return ()
    by_title = {racer.title: racer for racer in racers}
    own = [by_title[title] for title in dict.fromkeys(row.title for row in rows)]
    asked = [
        row
        for place, row in enumerate(rows)
        if any(row.title != other.title for other in rows[max(0, place - 1) : place + 2])
    ]
    found: dict[int, UncertainChoice] = {}
    corners = list(cost_range(rules.cost_model))
    for done, (name, model) in enumerate(corners):
        context().report("bands", done, len(corners))
        moved = [racer.under(replace(rules, cost_model=model)) for racer in own]
        for row in asked:
            times = {racer.title: racer.time(row.size_bytes).seconds for racer in moved}
            other = min(times, key=lambda title: times[title])
            gain = 1 - times[other] / times[row.title]
            known = found.get(row.size_bytes)
            if gain > 0 and (known is None or gain > known.gain):
                found[row.size_bytes] = UncertainChoice(row.size_bytes, row.title, other, gain, name)
    return tuple(found[size] for size in sorted(found))


def cost_range(model: CostModel) -> Iterator[tuple[str, CostModel]]:
    """The model with groups of its figures at the ends of their bands, and what was moved."""
    groups: dict[str, list[str]] = {}
    for path in model.bands:
        groups.setdefault(_group_of(path), []).append(path)
    if len(groups) > 1:
        groups["all"] = list(model.bands)
    for name, paths in groups.items():
        for end, word in enumerate(("lowest", "highest")):
            yield f"{name} {word}", _moved(model, {path: model.bands[path][end] for path in paths})


def _group_of(path: str) -> str:
    if path.rpartition(".")[2] in _RATES:
        return "rates"
    if path.endswith("launch_ns"):
        return "launches"
    return "latencies in the box" if f".{LinkClass.BOX}." in path else "latencies of the network"


def _moved(model: CostModel, figures: Mapping[str, float]) -> CostModel:
    """The model with some figures changed; paths that it does not have are left alone."""
    for path, value in figures.items():
        head, _, rest = path.partition(".")
        if path == "reduction_bytes_per_s":
            model = replace(model, reduction_bytes_per_s=max(0, round(value)))
            continue
        protocols = []
        for protocol in model.protocols:
            if protocol.name == head and rest in ("launch_ns", "channel_bytes_per_s"):
                protocol = replace(protocol, **{rest: max(0, round(value))})  # type: ignore[arg-type]
            elif protocol.name == head and rest.partition(".")[0] in set(LinkClass):
                link_class, _, figure = rest.partition(".")
                cost = replace(getattr(protocol, link_class), **{figure: _figure(figure, value)})
                protocol = replace(protocol, **{link_class: cost})
            protocols.append(protocol)
        model = replace(model, protocols=tuple(protocols))
    return replace(model, bands={})


def _figure(name: str, value: float) -> int | Fraction:
    if name != "efficiency":
        return max(0, round(value))
    least = Fraction(1, MAX_DENOMINATOR)
    return min(Fraction(1), max(least, Fraction(value).limit_denominator(MAX_DENOMINATOR)))
