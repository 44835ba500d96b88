"""Optimal forests from 1024 to 65,536 GPUs: CPU, memory, heights, packers.

    python -m benchmarks.scale                  # everything; five minutes of CPU
    python -m benchmarks.scale --quick          # up to 4096 GPUs; a minute or two
    python -m benchmarks.scale --only rail      # rows whose name holds a word
    python -m benchmarks.scale --json rows.json --write

Each row is a process of its own, in one thread of Python, with a limit of CPU seconds and of memory. "CPU s"
is that of synthesis alone: reading the fabric and verification are told apart. Peak memory is that of the
whole process, fabric and verifier included. Failures are random, by --seed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from benchmarks.scale_tables import tables
from tools.records import show, write_tables

from treadle.planning import bound, make_problem, repair, solve
from treadle.schedules.factored import FactoredForest
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.topologies import Topology, TopologyBuilder, parse, with_failed_links, with_failed_nodes
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify

GB = 10**9
MIB = 2**20
EXPANDED_ROOTS = 3


@dataclass(frozen=True)
class Case:
    """One row.

    Parameters
    ----------
    table : str
        ``large``, ``damaged``, ``generic``, ``published`` or ``repair``.
    name : str
        What the row is called.
    fabric : str
        A catalogue expression, or a call of one of `OWN_FABRICS`.
    failures : int
        Links or nodes that fail.
    lost : str
        A part of their names: ``nic`` for nodes, else of links; empty: any link.
    published : str
        What the authors took, where that is known; of repairs the link or node that fails.
    """

    table: str
    name: str
    fabric: str
    failures: int = 0
    published: str = ""
    lost: str = ""


def near_tight_clusters(count: int, size: int) -> Topology:
    """A ring of 4-regular circulants, neighbours joined by two links: a cluster's border is nearly tight."""
    builder = TopologyBuilder(f"near_tight_clusters({count}, {size})")
    names = [[builder.compute(f"c{i}.n{j}") for j in range(size)] for i in range(count)]
    for row in names:
        for j in range(size):
            for step in (1, 5):
                builder.duplex(row[j], row[(j + step) % size], GB)
    for i in range(count):
        other = names[(i + 1) % count]
        for j in (0, size // 2):
            builder.duplex(names[i][j], other[(j + 3) % size], GB)
    return builder.build()


def mixed_boxes(boxes: int) -> Topology:
    """Boxes of 4 and 8 GPUs in turn, a NIC's bandwidth per GPU, all on one switch."""
    return _boxes(f"mixed_boxes({boxes})", [4 if i % 2 else 8 for i in range(boxes)], planes=1)


def irregular_boxes(boxes: int) -> Topology:
    """Boxes of 2 to 8 GPUs at random, each GPU on one of two network switches at random."""
    chance = random.Random(1)
    return _boxes(f"irregular_boxes({boxes})", [chance.randint(2, 8) for _ in range(boxes)], planes=2)


def _boxes(name: str, sizes: Sequence[int], *, planes: int) -> Topology:
    chance, builder = random.Random(2), TopologyBuilder(name)
    tops = [builder.switch(f"ib{i}") for i in range(planes)]
    for i, size in enumerate(sizes):
        inner = builder.switch(f"box{i}.nvswitch")
        for j in range(size):
            gpu = builder.compute(f"box{i}.gpu{j}")
            builder.duplex(gpu, inner, 300 * GB)
            builder.duplex(gpu, chance.choice(tops), 25 * GB)
    return builder.build()


OWN_FABRICS: dict[str, Callable[..., Topology]] = {
    "near_tight_clusters": near_tight_clusters,
    "mixed_boxes": mixed_boxes,
    "irregular_boxes": irregular_boxes,
}


def fabric_of(text: str) -> Topology:
    """The fabric of a row."""
    function, _, rest = text.partition("(")
    if function in OWN_FABRICS:
        return OWN_FABRICS[function](*(int(part) for part in rest.rstrip(")").split(",")))
    return parse(text)


SIZES = {"4K": 4096, "16K": 16384, "64K": 65536}


def large_cases(size: str) -> list[Case]:
    """Platforms and clusters of about that many GPUs."""
    gpus = SIZES[size]
    boxes, leaves = gpus // 8, gpus // 32
    rows = [
        ("A100, one switch", f"dgx_a100_flat({boxes})"),
        ("H100", f"dgx_h100({boxes})"),
        ("A100, NICs, two planes", f"dgx_a100({boxes})"),
        ("MI250", f"mi250({gpus // 16})"),
        ("pods 1:1", f"pods({gpus // 256}, 32)"),
        ("pods 2:1", f"pods({gpus // 256}, 32, oversubscription=2)"),
        ("leaf-spine 2:1", f"leaf_spine({leaves}, 16, gpus_per_leaf=32, oversubscription=2)"),
        ("leaf-spine 4:1", f"leaf_spine({leaves}, 16, gpus_per_leaf=32, oversubscription=4)"),
        ("rail-only", f"rail_optimized({boxes})"),
        ("rails, spines 2:1", f"rail_optimized({boxes}, spines=8, oversubscription=2)"),
        ("fat tree", f"fat_tree({ {'4K': 26, '16K': 40, '64K': 64}[size] })".replace(" ", "")),
        ("NVL72", f"gb200_nvl72({-(-gpus // 72)})"),
        ("mixed 4/8-GPU boxes", f"mixed_boxes({gpus // 6})"),
    ]
    return [Case("large", f"{name}, {size}", fabric) for name, fabric in rows]


FAILURES = 100
DAMAGED = (
    ("A100, one switch", "dgx_a100_flat({})", 8, "--ib", "network links"),
    ("A100, NICs, two planes", "dgx_a100({})", 8, "nic", "NICs"),
    ("A100, NICs, two planes", "dgx_a100({})", 8, "nvswitch", "NVSwitch links"),
    ("A100, NICs, two planes", "dgx_a100({})", 8, "", "links of any kind"),
    ("H100", "dgx_h100({})", 8, "", "links of any kind"),
    ("MI250", "mi250({})", 16, "--ib", "network links"),
    ("MI250", "mi250({})", 16, "", "links of any kind"),
    ("pods 1:1", "pods({}, 32)", 256, "--leaf", "network links"),
    ("pods 2:1", "pods({}, 32, oversubscription=2)", 256, "nvswitch", "NVSwitch links"),
    ("pods 2:1", "pods({}, 32, oversubscription=2)", 256, "gpu", "links of GPUs"),
    (
        "leaf-spine 2:1",
        "leaf_spine({}, 16, gpus_per_leaf=32, oversubscription=2)",
        32,
        "--spine",
        "uplinks",
    ),
    ("rail-only", "rail_optimized({})", 8, "--rail", "rail links"),
    ("rail-only", "rail_optimized({})", 8, "nvswitch", "NVSwitch links"),
    ("rail-only", "rail_optimized({})", 8, "", "links of any kind"),
    (
        "rails, spines 2:1",
        "rail_optimized({}, spines=8, oversubscription=2)",
        8,
        "--rail",
        "rail links",
    ),
    ("NVL72", "gb200_nvl72({})", 72, "", "links of any kind"),
    ("fat tree", "fat_tree(64)", 1, "core", "core links"),
    ("fat tree", "fat_tree(64)", 1, "agg", "links within pods and to the core"),
)
"""Name, fabric, GPUs per part, what fails, and how that is called."""

GENERIC = (
    ("torus(32,32)", "torus(64,64)"),
    ("jellyfish(1024,4)", "jellyfish(4096,4)"),
    ("hypercube(10)", "hypercube(12)"),
    ("dragonfly(32,1)", "dragonfly(32,4)"),
    ("near_tight_clusters(32,32)", "near_tight_clusters(64,64)"),
    ("pods(8, 16, oversubscription=2)", "pods(16, 32, oversubscription=2)"),
    ("irregular_boxes(205)", "irregular_boxes(819)"),
    ("complete(1024)", "hamming(2,64)"),
    ("crown(512)", "slimfly(43)"),
)
PUBLISHED = (
    ("dgx_a100_flat(128)", "36.5 min"),
    ("dgx_a100(128)", ""),
    ("mi250(64)", "37.7 min"),
)
REPAIRS = (
    ("A100, one switch", "dgx_a100_flat({})", 8, "box3.gpu0--ib0"),
    ("A100, one switch", "dgx_a100_flat({})", 8, "box3.gpu0"),
    ("A100, NICs, two planes", "dgx_a100({})", 8, "box3.nic0"),
    ("MI250", "mi250({})", 16, "box3.gpu0--ib0"),
    ("pods 2:1", "pods({}, 32, oversubscription=2)", 256, "box3.gpu0--leaf0"),
    ("NVL72", "gb200_nvl72({})", 72, "rack3.gpu0--ib0"),
)


def cases(*, quick: bool) -> list[Case]:
    """All rows."""
    sizes = ["4K"] if quick else list(SIZES)
    generic = [name for small, big in GENERIC for name in ((small,) if quick else (small, big))]
    return [
        *(Case("published", name, name, 0, told) for name, told in PUBLISHED),
        *(Case("generic", name, name) for name in sorted(generic, key=lambda name: _ranks(name) > 2000)),
        *(case for size in sizes for case in large_cases(size)),
        *damaged_cases(SIZES[sizes[-1]]),
        *(
            Case("repair", f"{name}, {sizes[-1]}", fabric.format(SIZES[sizes[-1]] // gpus), 0, failed)
            for name, fabric, gpus, failed in REPAIRS
        ),
    ]


def damaged_cases(gpus: int) -> list[Case]:
    """Failures of many kinds."""
    return [
        Case("damaged", name, fabric.format(gpus // part), FAILURES, told, lost)
        for name, fabric, part, lost, told in DAMAGED
    ]


def _ranks(name: str) -> int:
    return 4096 if name in [big for _, big in GENERIC] else 1024


def damaged(topology: Topology, count: int, lost: str, seed: int) -> Topology:
    """The fabric without `count` random NICs, or links whose names hold a word."""
    chance = random.Random(seed)
    if lost == "nic":
        nics = [name for name in topology.node_names if ".nic" in name]
        return with_failed_nodes(topology, *chance.sample(nics, count))
    ends = zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)
    pairs = {(min(pair), max(pair)) for pair in ends}
    names = sorted("--".join(sorted(topology.node_names[node] for node in pair)) for pair in pairs)
    return with_failed_links(topology, *chance.sample([name for name in names if lost in name], count))


def measured(case: Case, seed: int) -> dict[str, object]:
    """What a child process finds."""
    solve("dgx_a100(1)", "allgather")  # loads what is loaded when it is first needed, before the clocks start
    start = time.process_time()
    topology = fabric_of(case.fabric)
    if case.failures:
        topology = damaged(topology, case.failures, case.lost, seed)
    ranks = len(topology.compute_nodes)
    row: dict[str, object] = {"ranks": ranks, "fabric_s": time.process_time() - start}
    if case.table == "repair":
        row |= _repaired(topology, case.published)
    else:
        row |= _decomposed(topology) if case.table in ("large", "damaged") else _solved(topology)
    row["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return row


def _decomposed(topology: Topology) -> dict[str, object]:
    """Tight-cut decomposition alone: where it does not apply, nothing else is tried."""
    collective = make_problem(topology, "allgather").collective
    start = time.process_time()
    found = decompose(topology, collective)
    row: dict[str, object] = {"cpu_s": time.process_time() - start}
    if isinstance(found, Unsupported):
        return {**row, "refusal": found}
    start = time.process_time()
    report = verify(
        topology,
        collective,
        found.schedule,
        claimed_optimal_algbw=found.optimum.algbw,
        certificate=found.optimum.certificate,
    )
    row["verify_s"] = time.process_time() - start
    forest = found.schedule.broadcast
    assert forest is not None
    return {
        **row,
        "verified": report.is_ok,
        "optimal": report.is_optimal,
        "algbw": float(report.algbw or 0),
        "k": found.trees_per_root,
        "packer": found.summary,
        **_expanded(forest, collective.n_ranks),
        "height": report.height_max,
        "height_is_exact": report.height_is_exact,
    }


def _expanded(forest: FactoredForest, n: int) -> dict[str, object]:
    """Distinct trees of a few roots, first, middle and last."""
    roots = sorted({0, n // 2, n - 1})[:EXPANDED_ROOTS]
    return {"distinct_trees": max(len(list(forest.trees(root))) for root in roots)}


def _solved(topology: Topology) -> dict[str, object]:
    """The default path of `solve`."""
    result = solve(topology, "allgather")
    seconds = dict(result.seconds)
    optimum = result.optimal_algbw or bound(topology, "allgather").algbw
    schedule = result.plan.entries[-1].schedule
    if isinstance(getattr(schedule, "broadcast", None), FactoredForest):
        made_by, trees = result.decomposition, None
    else:
        made_by, trees = f"{result.packer}", schedule.broadcast.n_trees / len(topology.compute_nodes)
    return {
        "cpu_s": seconds["total"] - seconds.get("fabric", 0) - seconds.get("verify", 0),
        "verify_s": seconds.get("verify", 0),
        "verified": result.report.is_ok,
        "optimal": Fraction(result.algbw) == optimum,
        "algbw": float(result.algbw),
        "k": result.trees_per_root,
        "height": result.report.height_max,
        "height_is_exact": result.report.height_is_exact,
        "height_bound": result.height_bound,
        "distinct_trees": trees,
        "packer": made_by,
        "stages": seconds,
    }


def _repaired(topology: Topology, failed: str) -> dict[str, object]:
    """A plan and what one failure makes of it; nothing is taken over from the old plan."""
    old = solve(topology, "allgather").plan
    names = {"links": [failed]} if "--" in failed else {"nodes": [failed]}
    result = repair(old, **names)
    before, after = result.subproblem_classes
    seconds = result.seconds
    return {
        "cpu_s": seconds["total"] - seconds["verify"],
        "verify_s": seconds["verify"],
        "verified": result.solved.report.is_ok,
        "optimal": result.solved.is_optimal,
        "loss": float(result.optimum_loss or 0),
        "kinds": f"{before} -> {after}",
        "k": result.solved.trees_per_root,
        "height": result.solved.report.height_max,
        "height_is_exact": result.solved.report.height_is_exact,
        "packer": result.solved.decomposition,
    }


def run_row(case: Case, seed: int, limit_s: int, memory_mb: int) -> dict[str, object]:
    """One row by a child process that may take `limit_s` CPU seconds and `memory_mb` of address space."""
    command = [sys.executable, "-m", "benchmarks.scale", "--row", json.dumps(vars(case)), "--seed", str(seed)]

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb * MIB, memory_mb * MIB))

    about = {"table": case.table, "name": case.name, "fabric": case.fabric, "failures": case.failures}
    about |= {"published": case.published}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=limits, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=20 * limit_s)  # wall time, where others use the machine too
    except subprocess.TimeoutExpired:
        output = b""
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        ended = "out of time" if -process.returncode in (signal.SIGXCPU, signal.SIGKILL) else "failed"
        return {**about, "refusal": f"{ended} (limit {limit_s} CPU s, {memory_mb} MB)"}
    return {**about, **json.loads(output)}


def line(row: dict[str, object]) -> str:
    """A row as it is printed while the benchmark runs."""
    if "refusal" in row:
        spent = f"{row['cpu_s']:8.3f} s" if "cpu_s" in row else " " * 10
        return f"{row['name']:40} {spent} {row['refusal']}"
    optimal = "optimal" if row["optimal"] else "NOT OPTIMAL"
    checked = "verified" if row["verified"] else "NOT VERIFIED"
    return (
        f"{row['name']:40} {row['cpu_s']:8.3f} s {row['peak_mb']:6.0f} MB  k {row['k']}, height "
        f"{row['height']}, {optimal}, {checked}; {row['packer']}"
    )


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="nothing above 4096 GPUs")
    made.add_argument("--only", metavar="WORD", default="", help="rows whose name or fabric holds this word")
    made.add_argument("--seed", type=int, default=1, help="of random failures")
    made.add_argument("--limit", type=int, default=60, metavar="SECONDS", help="CPU time of a row")
    made.add_argument("--memory", type=int, default=12288, metavar="MB", help="address space of a row")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the rows")
    made.add_argument("--write", action="store_true", help="into the record scale")
    made.add_argument(
        "--from", type=Path, metavar="FILE", dest="rows", nargs="+", help="rows that --json wrote; run none"
    )
    made.add_argument("--row", help=argparse.SUPPRESS)
    return made


def main() -> None:
    arguments = parser().parse_args()
    if arguments.row:
        print(json.dumps(measured(Case(**json.loads(arguments.row)), arguments.seed)))
        return
    if arguments.rows:
        rows = [row for path in arguments.rows for row in json.loads(path.read_text())]
    else:
        chosen = [c for c in cases(quick=arguments.quick) if arguments.only in f"{c.name} {c.fabric}"]
        rows = []
        for case in chosen:
            rows.append(run_row(case, arguments.seed, arguments.limit, arguments.memory))
            print(line(rows[-1]), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    if arguments.write:
        write_tables("scale", *tables(rows))
    else:
        show(*tables(rows))


if __name__ == "__main__":
    main()
