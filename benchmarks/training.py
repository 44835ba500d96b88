"""Training steps by model, fabric and scheduler, errors, CPU time: most of the record training-figures.

    python -m benchmarks.training --write     # some minutes
    python -m benchmarks.training             # to the terminal

Printed figures come from src/treadle/reproduction/data/printed.toml, ours are computed here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import process_time

from tools.records import Table, show, write_tables

from treadle import planning
from treadle.reproduction import expert_training, sharded_training
from treadle.reproduction.expansion_tables import TABLE_A1
from treadle.reproduction.expert_training import ExpertCase
from treadle.reproduction.printed import published_figures, rounded
from treadle.reproduction.reproduce import reproduce
from treadle.reproduction.training_costs import DirectConnectCosts
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import RooflineTimes
from treadle.training.devices import accelerator
from treadle.training.models.zoo import zoo_model
from treadle.training.step import StepOutcome, TrainingSetup, simulate_step
from treadle.training.training_options import TrainingOptions

EFFICIENCY = 0.5
SWITCHED = ("treadle", "ring", "tree", "bound")
DIRECT = ("treadle", "torus", "shifted-ring", "double-binary-tree", "any-fabric")


@dataclass(frozen=True)
class StepCase:
    """A step on a fabric: global batch, tokens by stream, mesh, ways of scheduling."""

    model: str
    device: str
    batch: int
    tokens: Mapping[str, int]
    fabric: str
    mesh: str
    schedulers: tuple[str, ...] = SWITCHED
    kappa: int = 1


_SWITCH = {"encoder": 512, "decoder": 512}
STEPS = (
    StepCase("gpt2-xl", "a100", 16, {"": 1024}, "dgx_a100:2", "dp=16"),
    StepCase("llama-3-8b", "a100", 16, {"": 2048}, "dgx_a100:2", "fsdp=16"),
    StepCase("llama-3-8b", "a100", 16, {"": 2048}, "dgx_a100:2", "fsdp=16", kappa=2),
    StepCase("llama-2-70b", "a100", 16, {"": 1024}, "dgx_a100:2", "fsdp=16", kappa=2),
    StepCase("llama-3-8b", "mi250", 32, {"": 2048}, "mi250:2", "fsdp=32", kappa=2),
    StepCase("llama-3-70b", "h100", 64, {"": 2048}, "dgx_h100:8", "fsdp=64", kappa=2),
    StepCase("llama-3-70b", "h100", 32, {"": 8192}, "dgx_h100:8", "fsdp=8,tp=8"),
    StepCase("mixtral-8x7b", "h100", 64, {"": 4096}, "dgx_h100:8", "fsdp=8,ep=8"),
    StepCase("gpt2-xl", "a100", 64, {"": 1024}, "circulant(64, 5, 6)", "dp=64", DIRECT),
    StepCase(
        "switch-base-256", "a100", 2048, _SWITCH, "line_graph(modified_de_bruijn(4, 2), 2)", "ep=256", DIRECT
    ),
)
SEVEN = (
    ("256 nodes: iteration, ShiftedRing / the paper's", 256, "ShiftedRing", "ratio"),
    ("256 nodes: iteration, torus / the paper's", 256, "torus", "ratio"),
    ("1024 nodes: iteration, ShiftedRing / the paper's", 1024, "ShiftedRing", "ratio"),
    ("1024 nodes: iteration, torus / the paper's", 1024, "torus", "ratio"),
    ("1024 nodes: all-to-all's share, the paper's", 1024, "ours", "share"),
    ("1024 nodes: all-to-all's share, ShiftedRing", 1024, "ShiftedRing", "share"),
    ("1024 nodes: all-to-all's share, torus", 1024, "torus", "share"),
)
EXHIBITS = ("figure-3.9", "figure-4.13", "figure-3.8", "torchtitan-2024-12", "llama-3-table-4", "deepseek-v3")


def by_scheduler() -> Table:
    """Iterations in ms of each model on its fabric."""
    names = list(dict.fromkeys((*SWITCHED, *DIRECT)))
    head = ["model", "batch", "mesh", "fabric", "kappa", *names]
    return Table("By model, fabric and scheduler", head, [*map(_step_row, STEPS)])


def _step_row(case: StepCase) -> Sequence[str]:
    print(f"{case.model} on {case.fabric}", file=sys.stderr)
    found = {name: _step_s(case, name) for name in case.schedulers}
    tokens = "+".join(map(str, case.tokens.values()))
    cells = [case.model, f"{case.batch} x {tokens}", f"`{case.mesh}`", f"`{case.fabric}`", str(case.kappa)]
    for name in dict.fromkeys((*SWITCHED, *DIRECT)):
        more = found[name] / found["treadle"] - 1 if name in found else 0.0
        words = f" ({100 * more:+.1f}%)" if name != "treadle" else ""
        cells.append(f"{rounded(1e3 * found[name], 4)}{words}" if name in found else "")
    return cells


def _step_s(case: StepCase, schedule: str) -> float:
    costs = planning.step_costs(_with_links(case.fabric), case.mesh, schedule=schedule)
    device = accelerator(case.device)
    setup = TrainingSetup(
        zoo_model(case.model),
        costs.mesh,
        device,
        "bf16",
        RooflineTimes(device, "bf16", EFFICIENCY),
        case.batch,
        case.tokens,
        TrainingOptions(kappa=case.kappa),
    )
    return float(simulate_step(setup, costs).iteration_s)


def _with_links(fabric: str) -> str:
    """Graphs of the catalogue as the dissertation has them: four links of 25 Gbit/s."""
    return f'with_links({fabric}, bandwidth="25Gbit/s")' if "(" in fabric else fabric


def seven_errors(
    efficiency: float, decoder: int, gradient_bytes: int, *, is_routed: bool = False
) -> list[float]:
    """Ours over theirs, less 1, of the figures that section 3.8.4 prints of iterations."""
    printed = published_figures()["figure-3.9"].figures
    steps: dict[tuple[int, str], StepOutcome] = {}
    for case in expert_training.CASES:
        whole = zoo_model(case.model)
        model = whole if is_routed else expert_training.without_routers(whole)
        for name, costs in fabrics(case).items():
            steps[case.nodes, name] = expert_training.expert_step(
                model,
                costs,
                efficiency=efficiency,
                tokens={"encoder": 512, "decoder": decoder},
                gradient_bytes=gradient_bytes,
            )
    errors = []
    for label, nodes, name, what in SEVEN:
        step = steps[nodes, name]
        ratio = float(step.iteration_s / steps[nodes, "ours"].iteration_s)
        ours = ratio if what == "ratio" else expert_training.exchange_fraction(step)
        value = printed[label].value
        assert value is not None, "they are numbers"
        errors.append(ours / float(value) - 1)
    return errors


def fabrics(case: ExpertCase) -> dict[str, DirectConnectCosts]:
    return {
        "ours": expert_training.fabric_costs(case.best, TABLE_A1[case.nodes][case.best]),
        "ShiftedRing": expert_training.ring_costs(case.nodes),
        "torus": expert_training.torus_costs(case.side),
    }


def expert_sensitivity() -> Table:
    """The largest error of the seven figures, by what the paper leaves open."""
    shares = (0.1, 0.15, 0.19, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    rows = [
        [
            str(decoder),
            "bf16" if gradient_bytes == 2 else "fp32",
            "yes" if is_routed else "no",
            *(_worst(share, decoder, gradient_bytes, is_routed) for share in shares),
        ]
        for is_routed in (False, True)
        for decoder in (512, 114)
        for gradient_bytes in (2, 4)
    ]
    head = ["decoder", "gradients", "routers", *(f"{share:g}" for share in shares)]
    return Table("What figure 3.9 depends on", head, rows)


def _worst(share: float, decoder: int, gradient_bytes: int, is_routed: bool) -> str:
    errors = seven_errors(share, decoder, gradient_bytes, is_routed=is_routed)
    return f"{100 * max(map(abs, errors)):.0f}"


def sharded_sensitivity() -> Table:
    """Shares and gains of the three large models of figure 4.13 by efficiency and kappa."""
    ring, trees = (rate * sharded_training.NETWORK for rate in sharded_training.searched_rates())
    pairs = {"theory": (ring, trees), "measured": sharded_training.MEASURED}

    def rows() -> Iterator[Sequence[str]]:
        for words, (slow, fast) in pairs.items():
            for kappa in (1.0, 1.5, 2.0):
                for efficiency in (0.4, 0.5, 0.65, 0.8, 0.95):
                    steps = [
                        [
                            sharded_training.sharded_step(case, rate, efficiency=efficiency, kappa=kappa)
                            for rate in (slow, fast)
                        ]
                        for case in sharded_training.CASES[3:]
                    ]
                    shares = (f"{sharded_training.compute_fraction(one):.0f}" for one, _ in steps)
                    gains = (f"{sharded_training.gain(*pair):.0f}" for pair in steps)
                    yield [words, f"{kappa:g}", f"{efficiency:g}", ", ".join(shares), ", ".join(gains)]

    head = ["rates", "kappa", "efficiency", "share of compute", "gain"]
    return Table("What figure 4.13 depends on", head, [*rows()])


def errors_of_all() -> Table:
    """Ours beside theirs, for all that training figures print."""

    def rows() -> Iterator[Sequence[str]]:
        for name in EXHIBITS:
            print(name, file=sys.stderr)
            for row in reproduce(name, full=True).rows:
                if row.printed is None or row.ratio is None:
                    continue
                sign = row.printed.text[0]
                error = "within" if sign in "<>" and row.agrees else f"{100 * (row.ratio - 1):+.1f}%"
                value = row.ours.value
                if value is None or isinstance(value, str):
                    raise AssertionError("it has a ratio")
                yield [f"`{name}`", row.ours.label, row.printed.text, rounded(value, 4), error]

    return Table("Errors", ["record", "figure", "printed", "Treadle", "error"], [*rows()])


def cpu_time() -> Table:
    """CPU seconds of steps once costs are known."""
    case = expert_training.CASES[1]
    costs = fabrics(case)["ours"]
    model = zoo_model(case.model)

    def rows() -> Iterator[Sequence[str]]:
        start = process_time()
        step = expert_training.expert_step(model, costs)
        seconds = process_time() - start
        words = f"{case.model}, {case.nodes} nodes, 30 layers, best of four buckets"
        yield [words, str(len(step.timeline.tasks)), f"{seconds:.2f}"]
        kind = accelerator("h100")
        setup = TrainingSetup(
            zoo_model("llama-3-70b"),
            Mesh((1024,), ("fsdp",)),
            kind,
            "bf16",
            RooflineTimes(kind, "bf16", EFFICIENCY),
            1024,
            {"": 8192},
            TrainingOptions(kappa=1),
        )
        known = sharded_1024()
        simulate_step(setup, known)
        start = process_time()
        step = simulate_step(setup, known)
        yield [
            "llama-3-70b, fsdp=1024, 82 layers",
            str(len(step.timeline.tasks)),
            f"{process_time() - start:.2f}",
        ]

    return Table("CPU time", ["step", "tasks", "CPU s"], [*rows()])


def sharded_1024() -> planning.FabricCosts:
    """Costs on 128 boxes, asked for once so that they are known."""
    return planning.step_costs("dgx_h100:128", "fsdp=1024", schedule="bound")


def main() -> None:
    """Compute and print; write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into the record training-figures")
    is_written = parser.parse_args().write
    makers = (by_scheduler, errors_of_all, expert_sensitivity, sharded_sensitivity, cpu_time)
    tables = [make() for make in makers]
    show(*tables)
    if is_written:
        write_tables("training-figures", *tables)


if __name__ == "__main__":
    main()
