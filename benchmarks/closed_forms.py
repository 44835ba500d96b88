"""What the closed forms for unlike children are worth: relay planes, and relayed stars.

    python -m benchmarks.closed_forms                       # 520 fabrics; half an hour
    python -m benchmarks.closed_forms --seeds 0-100

Random fabrics of 200 to 600 ranks (platforms of the catalogue, boxes of 2 to 8 GPUs on one or two networks;
three of four with failed links), shards of one size or not, trees free, fixed or limited in number. Each that
a form serves is solved once more without it: with packed tables in its place, as for small outermost pieces,
and with none, as beyond the size of tables. Every forest is verified.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import treadle.synthesis.trees.tight_cuts.layer_solution as layers
from treadle.errors import TreadleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies import Topology, TopologyBuilder, parse, with_failed_links
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify

GB = 10**9
FORMS = ("relay_planes", "relayed_stars")
PLATFORMS = (
    *("dgx_a100(64)", "dgx_a100(64, planes=2)", "dgx_h100(64)", "mi250(32)", "leaf_spine(16, 4, box=8)"),
    *("pods(16, 4)", "rail_optimized(64)", "gb200_nvl72(8)"),
)
KINDS = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)
WITHOUT = {"both": FORMS, **{form: (form,) for form in FORMS}}


def unlike_boxes(chance: random.Random, boxes: int, planes: int, *, everywhere: bool) -> Topology:
    """Boxes of 2 to 8 GPUs, whose NICs are on one of the planes, or on all."""
    builder = TopologyBuilder("unlike_boxes")
    networks = [builder.switch(f"net{plane}") for plane in range(planes)]
    for box in range(boxes):
        inner = builder.switch(f"b{box}.nvs")
        for gpu in range(chance.choice((2, 4, 4, 8, 8))):
            name = builder.compute(f"b{box}.g{gpu}")
            builder.duplex(name, inner, 300 * GB)
            for plane in range(planes):
                if everywhere or (gpu + box) % planes == plane:
                    builder.duplex(name, networks[plane], 25 * GB)
    return builder.build()


def fabric(chance: random.Random) -> Topology:
    """A platform or unlike boxes; three of four have lost links."""
    drawn = chance.choice((*PLATFORMS, "one plane", "two planes", "both planes"))
    if drawn in PLATFORMS:
        whole = parse(drawn)
    else:
        planes = 1 if drawn == "one plane" else 2
        whole = unlike_boxes(chance, chance.choice((40, 60, 100)), planes, everywhere=drawn == "both planes")
    if chance.random() >= 0.75:
        return whole
    count, word = chance.choice((1, 3, 10, 40)), chance.choice(("", "net", "nvs", "g"))
    ends = zip(whole.tails.tolist(), whole.heads.tolist(), strict=True)
    pairs = sorted({tuple(sorted((whole.node_names[a], whole.node_names[b]))) for a, b in ends})
    pairs = [pair for pair in pairs if word in pair[0] + pair[1]]
    lost = chance.sample(pairs, min(count, len(pairs)))
    return with_failed_links(whole, *("--".join(pair) for pair in lost))


def question(seed: int) -> tuple[Topology, Collective, TreeBudget]:
    """What is asked of which fabric."""
    chance = random.Random(seed)
    topology = fabric(chance)
    n = len(topology.compute_nodes)
    kind, style = chance.choice(KINDS), chance.choice(("equal", "equal", "by rank", "by box"))
    weights = None
    if style == "by rank":
        weights = tuple(chance.choice((1, 1, 2, 3)) for _ in range(n))
    elif style == "by box":
        weights = tuple(1 + (rank // 8) % 2 for rank in range(n))
    if weights is not None and kind is CollectiveKind.ALLREDUCE:
        kind = CollectiveKind.ALLGATHER
    budgets = (
        *(TreeBudget(), TreeBudget()),
        *(TreeBudget(trees=chance.randint(1, 5)), TreeBudget(max_trees=chance.randint(2, 8))),
    )
    return topology, replace(on_all_ranks(topology, kind), weights=weights), chance.choice(budgets)


@contextmanager
def changed(forms: dict[str, Any]) -> Iterator[None]:
    """Other functions in the place of those of `layers`."""
    kept = {name: getattr(layers, name) for name in forms}
    for name, form in forms.items():
        setattr(layers, name, form)
    try:
        yield
    finally:
        for name, form in kept.items():
            setattr(layers, name, form)


def no_outer_table(real: Any) -> Any:
    """The check of tables, for which an outermost piece with relays is too large."""

    def refused(problem: Any, family: Any, cutting: Any, numbers: list[int]) -> Any:
        if 0 in numbers and cutting.kinds[int(cutting.kind[0])].n_relays:
            return Unsupported("too large for a table")
        return real(problem, family, cutting, numbers)

    return refused


def answer(
    topology: Topology, collective: Collective, budget: TreeBudget, off: tuple[str, ...], *, tables: bool
) -> tuple[str, int, set[str]]:
    """Bandwidth ("" if refused), height and the forms that served."""
    used: set[str] = set()

    def noted(name: str) -> Any:
        real = getattr(layers, name)

        def form(*arguments: Any) -> Any:
            found = Unsupported("left out") if name in off else real(*arguments)
            used.update(() if isinstance(found, Unsupported) else (name,))
            return found

        return form

    forms = {name: noted(name) for name in FORMS}
    with changed(forms if tables else {**forms, "_refused": no_outer_table(layers._refused)}):
        found = decompose(topology, collective, budget=budget, lower=False)
    if isinstance(found, Unsupported):
        return "", 0, used
    report = verify(topology, collective, found.schedule)
    assert report.is_ok, report.violations[0]
    return str(found.algbw), report.height_max or 0, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0-520", metavar="A-B")
    first, last = map(int, parser.parse_args().seeds.split("-"))
    seen: Counter[str] = Counter()
    for seed in range(first, last):
        try:
            asked = question(seed)
            answers = {tables: answer(*asked, (), tables=tables) for tables in (True, False)}
        except TreadleError:  # the failures cut ranks off, or leave switches unbalanced
            continue
        seen["fabrics"] += 1
        for tables, (rate, height, used) in answers.items():
            if not used:
                continue
            where = "packed tables" if tables else "no tables"
            seen[f"{where}: served by {', '.join(sorted(used))}"] += 1
            for name, off in WITHOUT.items():
                other, hops, _ = answer(*asked, off, tables=tables)
                same = "the same" if hops <= height else f"{hops - height} hops higher"
                what = same if other == rate else "slower" if other else "refused"
                seen[f"{where}: without {name}: {what}"] += 1
    for what, count in sorted(seen.items()):
        print(f"{count:6} {what}")


if __name__ == "__main__":
    main()
