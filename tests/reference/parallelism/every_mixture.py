"""Every sequence of layers over every plan of a block, with every plan of the ends, priced one by one."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from reference.parallelism.brute_force import Priced, every_plan
from treadle.parallelism.search.layer_columns import Layering

Plan = tuple[int, ...]


class Mixtures:
    """Sums are exact; `Layering` gives the graphs of block and ends, which are priced from their tables."""

    def __init__(self, layering: Layering) -> None:
        self.layering = layering
        self.names = layering.graph.quantities
        self.columns = every_plan(layering.layers.graph)
        self.endings = every_plan(layering.ends.graph)

    def price(
        self, layers: tuple[Plan, ...], ending: Plan, overlap: str = "layer"
    ) -> tuple[Fraction, Fraction]:
        """Seconds and bytes of the fullest moment, of plans of the block and of the ends."""
        n, names, section = len(layers), self.names, self.layering.section
        columns, ends = [self.columns[plan] for plan in layers], self.endings[ending]
        both = [(a[names.serial(section)], a[names.overlapped(section)]) for a in columns]
        others = [
            (self.layering.graph.repeats[s], ends[names.serial(s)], ends[names.overlapped(s)])
            for s in range(names.n_sections)
            if s != section
        ]
        if overlap == "model":
            seconds = max(
                sum(pair[k] for pair in both) + sum(other[0] * other[1 + k] for other in others)
                for k in (0, 1)
            )
        else:
            hidden = max if overlap == "layer" else (lambda *pair: sum(pair))
            seconds = Fraction(sum(hidden(*pair) for pair in both))
            seconds += sum(repeat * hidden(a, b) for repeat, a, b in others)
        states = [self.layering.ends.boundary_of(ending)]
        states += [self.layering.layers.boundary_of(plan) for plan in layers]
        for before, after in zip(states, [*states[1:], states[0]], strict=True):
            seconds += Fraction(self.layering.switch_seconds(before, after))
        stays = Fraction(sum(a[names.persistent] for a in columns), n) + ends[names.persistent]
        moments = range(names.n_moments)
        passing = (
            Fraction(0)
            if not moments
            else max(a[names.transient(t)] + ends[names.transient(t)] for a in columns for t in moments)
        )
        return seconds, stays + passing

    def best(self, memory_bytes: float) -> Fraction | None:
        """Least seconds over all sequences."""
        found = None
        for ending in self.endings:
            for layers in product(_useful(self.columns), repeat=self.layering.n_layers):
                seconds, held = self.price(layers, ending)
                if held <= memory_bytes and (found is None or seconds < found):
                    found = seconds
        return found


def _useful(columns: Priced) -> list[Plan]:
    """One plan for each vector of amounts and last states."""
    seen: dict[tuple[object, ...], Plan] = {}
    for plan, amounts in columns.items():
        seen.setdefault((*amounts, *plan[:2]), plan)
    return list(seen.values())
