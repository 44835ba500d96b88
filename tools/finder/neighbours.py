"""Searches graphs of a few nodes more than a good one has, and writes the finder's table of neighbours.

``python -m tools.finder.neighbours --nodes 97 --degree 4 --seconds 60 --seed 0 FILE`` puts one to three nodes
between links of the best known graphs of 96, 95 and 94 nodes (as many as ``--most`` says), improves which
links are cut and which exchange their heads, and adds to FILE what no known graph beats. A run is not
repeatable, for it ends by time. Every row is computed anew from its expression before it is written.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from time import monotonic

import numpy as np

from treadle.atomic import write_bytes
from treadle.errors import TreadleError
from treadle.finder.measure import Option, figures_of
from treadle.finder.search import Finder
from treadle.planning.designing.candidates import frontier_options, known_bases
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.distances import distance_distribution
from treadle.topologies.topology import Topology

_PATIENCE = 60
Worth = tuple[int, Fraction]
"""Pairs beyond the steps wanted; T_B both ways."""


@dataclass(frozen=True)
class Change:
    """Links cut for new nodes, and pairs of links that exchange heads afterwards."""

    cut: tuple[int, ...]
    exchanged: tuple[int, ...] = ()

    def expression(self, base: str) -> str:
        """In the catalogue's language."""
        text = f"with_inserted_nodes({base}, {', '.join(map(str, self.cut))})"
        if self.exchanged:
            text = f"with_exchanged_heads({text}, {', '.join(map(str, self.exchanged))})"
        return text


class _Climb:
    """Changes of one base that are to take at most so many steps."""

    def __init__(self, base: Option, new: int, steps: int, rng: random.Random) -> None:
        self.base, self.new, self.steps, self.rng = base, new, steps, rng
        self.degree = base.degree
        self.links = base.topology.n_links

    def graph(self, change: Change) -> Topology | None:
        tails, heads = self.base.topology.tails.tolist(), self.base.topology.heads.tolist()
        n = self.base.nodes
        for place, link in enumerate(change.cut):
            node = n + place // self.degree
            if node in (tails[link], heads[link]):
                return None
            tails.append(node)
            heads.append(heads[link])
            heads[link] = node
        for one, other in zip(change.exchanged[::2], change.exchanged[1::2], strict=True):
            heads[one], heads[other] = heads[other], heads[one]
            if heads[one] == tails[one] or heads[other] == tails[other]:
                return None
        return from_arcs("neighbour", np.array(tails), np.array(heads), n=n + self.new)

    def worth(self, change: Change, bar: Worth) -> Worth | None:
        graph = self.graph(change)
        if graph is None:
            return None
        try:
            counts = distance_distribution(graph).sum(axis=0)
        except TreadleError:  # not connected
            return None
        beyond = int(counts[self.steps + 1 :].sum())
        if beyond or beyond > bar[0]:
            return beyond, Fraction(0)
        _, gather, reduce = figures_of(graph)
        return 0, gather + reduce

    def start(self) -> Change:
        cut = []
        for node in range(self.new):
            cut += self.rng.sample(range(self.links + node * self.degree), self.degree)
        return Change(tuple(cut))

    def changed(self, change: Change) -> Change:
        total = self.links + len(change.cut)
        if self.rng.random() < 0.5:
            cut = list(change.cut)
            at = self.rng.randrange(len(cut))
            cut[at] = self.rng.randrange(self.links + at // self.degree * self.degree)
            return Change(tuple(cut), change.exchanged)
        pairs = list(change.exchanged)
        if pairs and (len(pairs) >= 16 or self.rng.random() < 0.4):
            at = 2 * self.rng.randrange(len(pairs) // 2)
            del pairs[at : at + 2]
        else:
            pairs += self.rng.sample(range(total), 2)
        return Change(change.cut, tuple(pairs))

    def run(self, until: float) -> tuple[Worth, Change] | None:
        """The best change found in the time; None if none is within the steps."""
        best: tuple[Worth, Change] | None = None
        while monotonic() < until:
            now = self.start()
            worth = self.worth(now, (2**60, Fraction(0)))
            stale = 0
            while worth is not None and stale < _PATIENCE * (self.degree + 2) and monotonic() < until:
                other = self.changed(now)
                found = self.worth(other, worth)
                if found is None or found > worth:
                    stale += 1
                    continue
                stale = 0 if found < worth else stale + 1
                now, worth = other, found
            if worth is not None and worth[0] == 0 and (best is None or worth < best[0]):
                best = worth, now
        return best


def search(nodes: int, degree: int, seconds: float, seed: int, most: int) -> list[list[int | str]]:
    """Rows that no known graph of the size beats: expression, nodes, degree, steps, T_B both ways."""
    rng = random.Random(seed)
    known = frontier_options(Finder(known_bases(nodes, degree)), nodes, degree)
    tasks = [
        (base, new, steps)
        for new in range(1, most + 1)
        for base in frontier_options(Finder(known_bases(nodes - new, degree)), nodes - new, degree)
        if base.diameter is not None and not base.candidate.gather.has_loops
        for steps in (base.diameter, base.diameter + 1)
        if base.candidate.t_b_both
        < min((one.candidate.t_b_both for one in known if one.candidate.steps <= steps), default=Fraction(99))
    ]
    rows: list[list[int | str]] = []
    for base, new, steps in tasks:
        found = _Climb(base, new, steps, rng).run(monotonic() + seconds / len(tasks))
        if found is None:
            continue
        expression = found[1].expression(base.expression)
        taken, gather, reduce = figures_of(parse(expression))
        worth = gather + reduce
        if not any(one.candidate.steps <= taken and one.candidate.t_b_both <= worth for one in known):
            rows.append([expression, nodes, degree, taken, str(gather), str(reduce)])
    return rows


def merged(rows: Sequence[Sequence[int | str]]) -> list[Sequence[int | str]]:
    """Rows that none of the same size beats, by size."""

    def key(row: Sequence[int | str]) -> tuple[int, int, int, Fraction]:
        return int(row[2]), int(row[1]), int(row[3]), Fraction(row[4]) + Fraction(row[5])

    kept: list[Sequence[int | str]] = []
    for row in sorted(rows, key=key):
        d, n, _, worth = key(row)
        if not any(key(one)[:2] == (d, n) and key(one)[3] <= worth for one in kept):
            kept.append(row)
    return kept


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: search one size and add to the file; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.finder.neighbours", description=__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--degree", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=1, help="most nodes inserted, up to 3")
    parser.add_argument("file", type=Path)
    given = parser.parse_args(sys.argv[1:] if arguments is None else list(arguments))
    before = json.loads(given.file.read_text("utf-8"))["graphs"] if given.file.exists() else []
    found = search(given.nodes, given.degree, given.seconds, given.seed, given.most)
    for row in found:
        sys.stderr.write(
            f"{row[1]} nodes, {row[3]} steps, T_B {float(Fraction(row[4]) + Fraction(row[5])) / 2}\n"
        )
    lines = ",\n".join(json.dumps(row) for row in merged([*before, *found]))
    columns = '["expression", "nodes", "degree", "steps", "gather", "reduce"]'
    write_bytes(given.file, f'{{"columns": {columns},\n"graphs": [\n{lines}\n]}}\n'.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
