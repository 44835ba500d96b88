"""Options of the commands that compute, bound and compare schedules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treadle.options.rows import Options, arg, integers, keyword, names, opt, size, written
from treadle.options.shared import (
    Costs,
    Fabric,
    Memory,
    Output,
    Posed,
    Problem,
    ProblemKeywords,
    Rated,
    Read,
    Reporting,
    Seed,
    TimeLimit,
    Trim,
    Workers,
)


class Trees(Trim):
    """What ForestColl accepts of the options of trees."""

    trees: int | None = opt("Use exactly K trees per root.", metavar="K")
    max_trees: int | None = opt("Use at most K trees per root.", metavar="K")
    exact: bool = opt("Reach the optimum, however many trees it takes.", False)
    packer: str | None = opt("Tree packer of ForestColl.", metavar="NAME", words="packers", rare=True)
    form: Any = opt(
        "Form of ForestColl's trees in the plan.",
        "auto",
        choices="treadle.synthesis.scheduler_options:Form",
        rare=True,
        takes="Form | str",
    )
    trim = Trim.trim


class RouteLimits(Options):
    """Limits on the routes of an all-to-all."""

    max_layers: int | None = opt("Use at most L virtual channels.", metavar="L", flag="--layers", rare=True)
    layer_changes: bool = opt("Let the virtual channel increase along a route.", False, rare=True)
    max_routes: int | None = opt("Maximum number of routes per pair of ranks.", metavar="R", rare=True)
    max_hops: int | None = opt("Maximum number of links of a route.", metavar="H", rare=True)


class Scheduler(Trees, RouteLimits):
    """Options of all schedulers."""

    height: int | None = opt("Maximum tree height (few-trees).", metavar="H", rare=True)
    multicast: bool = opt("Use in-network multicast and aggregation.", False, rare=True)
    factors: tuple[int, ...] | None = opt(
        "Factors of the number of ranks, the nearest last; rail-bruck: radix.",
        metavar="R,R,...",
        parse=integers,
        rare=True,
        takes="Sequence[int] | None",
    )
    exchanged: tuple[int, ...] | None = opt(
        "Positions, from 1, of factors that exchange full sums.",
        metavar="I,I,...",
        parse=integers,
        rare=True,
        takes="Sequence[int] | None",
    )
    chunks: int | None = opt("Chunks per shard; bfb: at most C.", metavar="C", rare=True)
    parts: int | None = opt("Parts of a step, the most awaited first.", metavar="P", rare=True)
    rounds: tuple[int, ...] | None = opt(
        "Chunks per link in each step (exact), or links of the walks.",
        metavar="R,R,...",
        parse=integers,
        rare=True,
        takes="Sequence[int] | None",
    )
    steps: int | None = opt("Number of steps, without --rounds.", metavar="S", rare=True)
    max_steps: int | None = opt("Maximum number of steps of an all-to-all.", metavar="T", rare=True)
    symmetric: bool = opt("Search symmetric schedules only; fast, no proof.", False, rare=True)
    max_flows: int | None = opt("Send in rounds of at most Q flows per host.", metavar="Q", rare=True)


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

    jobs: Path | None = opt(
        "Concurrent collectives (TOML), instead of COLLECTIVE.", metavar="FILE", replaces="collective"
    )


class Solve(Posed, Problem, Jobs, Costs, Scheduler, TimeLimit, Seed, Workers, Memory, Fabric, Rated):
    """Options of ``solve``."""

    output: Path | None = written("Plan, or file of routes, to write.", short="-o")
    size: str | None = opt("Choose the fastest schedule for each size, e.g. 1K..1G.", metavar="SIZES")
    algorithm: str | None = opt("Scheduler, see below; default the best.", metavar="NAME", words="algorithms")
    trees, max_trees, exact = Trees.trees, Trees.max_trees, Trees.exact
    max_schedules: int | None = opt("Maximum number of size ranges, with --size.", metavar="K", rare=True)
    retune: Path | None = opt(
        "Recompute the size ranges of this plan, with --cost-model.",
        metavar="SET",
        rare=True,
        replaces="topology collective",
    )
    routes: bool = opt("Compute or write deadlock-free routes of an all-to-all.", False, rare=True)
    explain: bool = opt("Print which packer built the trees of each subproblem.", False, rare=True)


class Bound(Posed, Problem, Jobs, Costs, TimeLimit, Workers, Seed, Fabric, Rated):
    """Options of ``bound``."""

    size: str | None = opt("Also compute time lower bounds, e.g. 1M, 1K,64M or 1K..1G.", metavar="SIZES")
    method: str | None = opt(
        "All-to-all by link-mcf, decomposed-mcf, fleischer, cut or bisection.",
        metavar="NAME",
        words="methods",
        rare=True,
    )
    gap: float | None = opt(
        "Optimality gap of an all-to-all; default 0.001, fleischer 0.05.", metavar="SHARE", rare=True
    )


class Compare(Posed, Problem, Costs, Trim, TimeLimit, Workers, Seed, Fabric, Rated):
    """Options of ``compare``."""

    algorithms: Sequence[str] | None = opt(
        "Only these schedulers.", metavar="NAME,...", words="algorithms", parse=names
    )
    size: str | None = opt("Simulate at these sizes, e.g. 1M,1G or 1K..1G.", metavar="SIZES")
    beside: Sequence[str] | None = opt(
        "Also compare these plans and third-party schedules.",
        flag="--with",
        metavar="FILE,...",
        parse=names,
    )
    picture: Path | None = written("Plot of times by size (.png, .svg or .pdf).")


class Pareto(Posed, TimeLimit, Seed, Fabric, Reporting):
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


class Repair(Read, Output, Trim, TimeLimit, Workers, Rated):
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
    algorithm: str | None = opt("Scheduler; default the plan's own.", metavar="NAME", words="algorithms")
    form: Any = opt(
        "Form of ForestColl's trees; default the plan's own.",
        choices="treadle.synthesis.scheduler_options:Form",
        rare=True,
    )
    forward: bool = opt("Let ranks of other groups forward.", False)
    size_bytes: int | None = opt(
        "Choose the fastest algorithm at this size.", metavar="SIZE", flag="--size", parse=size
    )
