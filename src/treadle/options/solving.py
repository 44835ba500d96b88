"""Options of the commands that compute, bound and compare schedules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treadle.options.rows import Options, arg, integers, keyword, names, opt, rare, written
from treadle.options.shared import (
    Balance,
    Costs,
    Fabric,
    Memory,
    NcclLog,
    Output,
    Problem,
    ProblemKeywords,
    ProblemOptions,
    Rated,
    Read,
    Reporting,
    Seed,
    TimeLimit,
    Workers,
)


class Trees(Balance):
    """What ForestColl accepts of the options of trees."""

    trees: int | None = opt("Use exactly K trees per root.", metavar="K")
    max_trees: int | None = opt("Use at most K trees per root.", metavar="K")
    exact: bool = opt("Reach the optimum, however many trees it takes.", False)
    packer: str | None = rare("Tree packer of ForestColl.", words="packers")
    form: Any = rare(
        "Form of ForestColl's trees in the plan.",
        "auto",
        choices="treadle.synthesis.scheduler_options:Form",
        takes="Form | str",
    )
    trim = Balance.trim


class RouteLimits(Options):
    """Limits on the routes of an all-to-all."""

    max_layers: int | None = rare("Use at most L virtual channels.", metavar="L", flag="--layers")
    layer_changes: bool = rare("Let the virtual channel increase along a route.", False)
    max_routes: int | None = rare("Maximum number of routes per pair of ranks.", metavar="R")
    max_hops: int | None = rare("Maximum number of links of a route.", metavar="H")


class Scheduler(Trees, RouteLimits):
    """Options of all schedulers."""

    height: int | None = rare("Maximum tree height (few-trees).", metavar="H")
    multicast: bool = rare("Use in-network multicast and aggregation.", False)
    factors: tuple[int, ...] | None = rare(
        "Factors of the number of ranks, the nearest last; rail-bruck: radix.",
        metavar="R,R,...",
        parse=integers,
        takes="Sequence[int] | None",
    )
    exchanged: tuple[int, ...] | None = rare(
        "Positions, from 1, of factors that exchange full sums.",
        metavar="I,I,...",
        parse=integers,
        takes="Sequence[int] | None",
    )
    chunks: int | None = rare("Chunks per shard; bfb: at most C.", metavar="C")
    parts: int | None = rare("Parts of a step, the most awaited first.", metavar="P")
    rounds: tuple[int, ...] | None = rare(
        "Chunks per link in each step (exact), or links of the walks.",
        metavar="R,R,...",
        parse=integers,
        takes="Sequence[int] | None",
    )
    steps: int | None = rare("Number of steps, without --rounds.", metavar="S")
    max_steps: int | None = rare("Maximum number of steps of an all-to-all.", metavar="T")
    symmetric: bool = rare("Search symmetric schedules only; fast, no proof.", False)
    max_flows: int | None = rare("Send in rounds of at most Q flows per host.", metavar="Q")


class SchedulerKeywords(Scheduler, Seed):
    """Fields of all forms' options, as `solve` takes them by keyword."""

    size: Any = keyword(takes="SizeRequest | None")


class SolveKeywords(ProblemKeywords, SchedulerKeywords):
    """Keywords of `solve` beside its own: those of a problem, and options of its scheduler."""


class CostedKeywords(ProblemKeywords, Costs):
    """Keywords of `compare` and `solve_sizes`: those of a problem, and what messages cost."""


class BoundKeywords(CostedKeywords):
    """Keywords of `bound`: also the sizes at which time lower bounds are computed."""

    sizes: Any = keyword(takes="SizesLike")


class Jobs(Options):
    """Concurrent collectives."""

    jobs: Path | None = opt("Concurrent collectives (TOML), instead of COLLECTIVE.", replaces="collective")


class Solve(
    ProblemOptions, Problem, Jobs, Costs, NcclLog, Scheduler, TimeLimit, Seed, Workers, Memory, Fabric, Rated
):
    """Options of ``solve``."""

    output: Path | None = written("Plan, or file of routes, to write.", short="-o")
    size: str | None = opt("Choose the fastest schedule for each size, e.g. 1K..1G.", metavar="SIZES")
    algorithm: str | None = opt("Scheduler, see below; default the best.", words="algorithms")
    trees, max_trees, exact = Trees.trees, Trees.max_trees, Trees.exact
    max_schedules: int = rare("Maximum number of size ranges, with --size; default 6.", 6, metavar="K")
    retune: Path | None = rare(
        "Recompute the size ranges of this plan, with --cost-model.",
        metavar="SET",
        replaces="topology collective",
    )
    routes: bool = rare("Compute or write deadlock-free routes of an all-to-all.", False)
    explain: bool = rare("Print which packer built the trees of each subproblem.", False)


class Bound(ProblemOptions, Problem, Jobs, Costs, NcclLog, TimeLimit, Workers, Seed, Fabric, Rated):
    """Options of ``bound``."""

    size: str | None = opt("Also compute time lower bounds, e.g. 1M, 1K,64M or 1K..1G.", metavar="SIZES")
    method: str | None = rare(
        "All-to-all by link-mcf, decomposed-mcf, fleischer, cut or bisection.", words="methods"
    )
    gap: float | None = rare(
        "Optimality gap of an all-to-all; default 0.001, fleischer 0.05.", metavar="SHARE"
    )


class Compare(ProblemOptions, Problem, Costs, NcclLog, Balance, TimeLimit, Workers, Seed, Fabric, Rated):
    """Options of ``compare``."""

    algorithms: Sequence[str] | None = opt(
        "Only these schedulers.", metavar="NAME,...", words="algorithms", parse=names
    )
    size: str | None = opt("Simulate at these sizes, e.g. 1M,1G or 1K..1G.", metavar="SIZES")
    beside: Sequence[str] | None = opt(
        "Also compare these plans and third-party schedules.", flag="--with", metavar="FILE,...", parse=names
    )
    shows_all: bool = opt("Show all schedules, and why others were not run.", False, flag="--all")
    picture: Path | None = written("Plot of times by size (.png, .svg or .pdf).")


class Pareto(ProblemOptions, TimeLimit, Seed, Fabric, Reporting):
    """Options of ``pareto``."""

    trees: tuple[int, ...] | None = opt(
        "Trees per root to try; default 1,2,4,8,16.", metavar="K,K,...", parse=integers
    )
    max_height: int | None = opt("Maximum tree height to try.", metavar="H")
    picture: Path | None = written("Plot of throughput by height (.png, .svg or .pdf).")
    max_steps: int | None = opt("Instead of trees, find schedules of at most S steps.", metavar="S")
    max_chunks: int = opt("Maximum number of chunks per shard, with --max-steps.", 2, metavar="C")
    extra_rounds: int | None = opt("At most steps + K rounds (SCCL's k).", metavar="K")
    root = Problem.root


class Algorithms(Reporting):
    """Options of ``algorithms``."""

    name: str | None = arg("[NAME]", "Only this scheduler, with its options.", None, words="algorithms")


class Repair(Read, Output, Balance, TimeLimit, Workers, Rated):
    """Options of ``repair``."""

    links: list[str] = opt(
        "Failed link: A--B, or 'A->B' for one direction; repeatable.", (), flag="--link", metavar="LINK"
    )
    nodes: list[str] = opt(
        "Failed GPU, NIC or switch, or a pattern; repeatable.", (), flag="--node", metavar="NODE"
    )
    every_failure: bool = opt("Compute a plan for every single failure, into the folder -o.", False)
    failures: Any = opt(
        "Elements that may fail, with --every-failure.", "cables", choices="treadle.planning:Failures"
    )
    algorithm: str | None = opt("Scheduler; default the plan's own.", words="algorithms")
    form: Any = rare(
        "Form of ForestColl's trees; default the plan's own.",
        choices="treadle.synthesis.scheduler_options:Form",
    )
    forward: bool = opt("Let ranks of other groups forward.", False)
    size_bytes: int | None = opt("Choose the fastest algorithm at this size.")
