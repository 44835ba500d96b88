"""Fit efficiencies of products and attention on published training steps, and state errors on the rest.

    python -m tools.training_fit --rows ../shared/data/measured                # every row by the presets
    python -m tools.training_fit --rows ../shared/data/measured --fit          # fit the presets again
    python -m tools.training_fit --rows ../shared/data/measured --write        # write the tables

Fitted rows, fixed before any fit: all bf16 rows of MPT, and of NeMo those at even positions (the first is 0).
Held rows: Megatron's SC21 table and the other half of NeMo; apart from these MPT at fp8 and torchtitan.

Assumed of all: a fabric of DGX boxes, collectives as NCCL predicts for its own choice (``--schedule nccl``),
axes that communicate at once (``per-axis``), contention by the GPU's preset, the default share of memory
bandwidth, Adam with fp32 masters, no kernel launches.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tools.records import Table, show, write_tables
from treadle import planning
from treadle.training.compute_times import RooflineTimes
from treadle.training.costs import RememberedCosts
from treadle.training.devices import accelerator
from treadle.training.models.attention import Heads
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.transformer import transformer
from treadle.training.models.transformer_shape import TransformerShape
from treadle.training.models.zoo import zoo_model
from treadle.training.prices.contention_presets import contention_of
from treadle.training.prices.efficiency_presets import roofline_times
from treadle.training.step import TrainingSetup, simulate_step
from treadle.training.training_options import CommunicationStreams, Recompute, TrainingOptions

FILE = "training_steps.csv"
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "mpt": {"gradient_bytes": 4},
    "sc21": {"sequence_parallel": False, "has_fused_attention": False, "bucket_bytes": 2**40},
    "nemo": {"zero": 1},
    "torchtitan": {"gradient_bytes": 4},
}
"""Options of each set, besides those of its rows.

- mpt: FSDP reduces gradients in fp32 (mixed precision DEFAULT); eager PyTorch with a Triton flash kernel,
  whose rate is fitted for H100 apart from that of later kernels (`TRITON_ON_H100`).
- sc21: no sequence parallelism; scores pass through the memory, dropout included; gradients are summed in one
  piece after the backward pass; the interleaved schedule with the fewest pieces (2 or more) that divide
  the layers of a stage; micro-batches of 1, 2, 4 or 8 sequences, whichever is fastest (the paper tunes them).
- nemo: fused attention in bf16, sequence parallelism, distributed optimizer, gradients summed in bf16 beside
  the backward pass; communication of tensor parallelism is not hidden.
- torchtitan: H100 at 500 W with 2.4 TB/s, taken as an H100.
"""
MOST_SEQUENCES = 8
VOCABULARIES = {"mpt": 50_368, "sc21": 51_200, "nemo": 51_200}
"""Of models that are not in the zoo; MPT and GPT tie the head to the embedding."""
TRITON_ON_H100 = 0.181
"""Share of the bf16 peak that MPT's Triton flash kernel reaches on H100, fitted on its rows."""
TORCHTITAN = """\
model,sequence,gpus,mesh,micro_batches,global_batch,precision,recompute,measured
llama-3-8b,32768,8,fsdp=8,1,8,fp8,full,3890
llama-3-8b,65536,8,fsdp=4;cp=2,1,4,fp8,full,2540
llama-3-8b,131072,8,fsdp=2;cp=4,1,2,fp8,full,1071
llama-3-70b,8192,256,fsdp=32;tp=8,1,512,fp8,full,829
"""
"""Rows with full or no recomputation of github.com/pytorch/torchtitan/blob/main/benchmarks, December 2024."""


@dataclass(frozen=True)
class StepRow:
    """A published step: columns of the file, and its use."""

    cells: Mapping[str, str]
    position: int

    @property
    def name(self) -> str:
        """Set and precision."""
        return f"{self.cells['set']} {self.cells['gpu']} {self.cells['precision']}"

    @property
    def use(self) -> str:
        """Whether the row is fitted, held to judge the fit, or another check."""
        is_narrow = self.cells["precision"] == "fp8"
        if self.cells["set"] == "nemo":
            return "held" if self.position % 2 else "fitted"
        if self.cells["set"] == "mpt":
            return "other" if is_narrow else "fitted"
        return "held" if self.cells["set"] == "sc21" else "other"

    @property
    def measured(self) -> float:
        """Tokens/s of a GPU, or TFLOP/s as the paper counts them."""
        return float(self.cells["measured"])

    def count(self, name: str) -> int:
        """Return a column that is a whole number; 0 if it is empty."""
        return int(self.cells[name] or 0)

    @property
    def axes(self) -> dict[str, int]:
        """Ranks by axis."""
        pairs = (part.split("=") for part in self.cells["mesh"].split(";"))
        return {name: int(size) for name, size in pairs}

    @property
    def model_axes(self) -> int:
        """Ranks among which a model's layers and matrices are cut: tp x pp."""
        return self.axes.get("tp", 1) * self.axes.get("pp", 1)


def read_rows(folder: Path) -> list[StepRow]:
    """Return the rows of the file, and torchtitan's."""
    lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    found = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    fixed = {"set": "torchtitan", "gpu": "h100", "interleave": "1", "unit": "tokens/s/gpu", "hidden": ""}
    found += [{**row, **fixed} for row in csv.DictReader(TORCHTITAN.splitlines())]
    seen: dict[str, int] = {}
    rows = []
    for cells in found:
        rows.append(StepRow(cells, seen.get(cells["set"], 0)))
        seen[cells["set"]] = rows[-1].position + 1
    return rows


def model_of(row: StepRow) -> TrainingModel:
    """Return the model of a row: of the zoo, or a GPT of its dimensions."""
    if not row.cells["hidden"]:
        return zoo_model(row.cells["model"])
    hidden, heads, is_mpt = row.count("hidden"), row.count("heads"), row.cells["set"] == "mpt"
    return transformer(
        TransformerShape(
            row.cells["model"],
            hidden,
            4 * hidden,
            VOCABULARIES[row.cells["set"]],
            row.count("layers"),
            Heads(heads, heads, hidden // heads, has_bias=not is_mpt, output_bias=not is_mpt),
            is_gated=False,
            is_tied=True,
            has_bias=not is_mpt,
            norm_has_bias=not is_mpt,
            positions=row.count("sequence"),
            has_dropout=not is_mpt,
        )
    )


@cache
def _costs(gpu: str, boxes: int, mesh: str) -> tuple[planning.FabricCosts, RememberedCosts]:
    found = planning.step_costs(f"dgx_{gpu}:{boxes}", mesh, schedule="nccl")
    return found, RememberedCosts(found)


def row_times(row: StepRow, presets: Mapping[str, tuple[float, float]]) -> RooflineTimes:
    """Return the roofline of a row; `presets` has products and attention by set, GPU and precision."""
    found = roofline_times(accelerator(row.cells["gpu"]), row.cells["precision"])
    products, attention = presets.get(
        row.name,
        (found.efficiency, TRITON_ON_H100 if row.name == "mpt h100 bf16" else found.attention_efficiency),
    )
    is_fused = SETTINGS[row.cells["set"]].get("has_fused_attention", True)
    return replace(found, efficiency=products, attention_efficiency=attention, fused_attention=is_fused)


def predicted(row: StepRow, presets: Mapping[str, tuple[float, float]] | None = None) -> float:
    """Return the speed of a row in its unit, by the presets or by others."""
    times = row_times(row, presets or {})
    return max(_speed(row, times, sequences) for sequences in _micro_batch_sizes(row))


def _micro_batch_sizes(row: StepRow) -> Iterator[int]:
    axes = row.axes
    own = row.count("global_batch") // (axes.get("dp", 1) * axes.get("fsdp", 1))
    if batches := row.count("micro_batches"):
        yield own // batches
        return
    for sequences in (1, 2, 4, MOST_SEQUENCES):
        if own % (sequences * axes["pp"]) == 0:
            yield sequences


def _speed(row: StepRow, times: RooflineTimes, sequences: int) -> float:
    axes, settings = row.axes, dict(SETTINGS[row.cells["set"]])
    if axes.get("dp", 1) == 1:
        settings.pop("zero", None)
    replicas, stages = axes.get("dp", 1) * axes.get("fsdp", 1), axes.get("pp", 1)
    interleave, gpus = row.count("interleave"), row.count("gpus")
    if row.cells["set"] == "sc21" and stages > 1:
        layers = row.count("layers") // stages
        interleave = next(number for number in range(2, layers + 1) if layers % number == 0)
    costs, remembered = _costs(row.cells["gpu"], gpus // 8, row.cells["mesh"].replace(";", ","))
    model, tokens = model_of(row), row.count("sequence")

    def seconds(batches: int) -> Fraction | float:
        options = TrainingOptions(
            kappa=contention_of(None, row.cells["gpu"]).kappa,
            micro_batches=batches,
            interleave=interleave,
            recompute=Recompute(row.cells["recompute"]),
            streams=CommunicationStreams.PER_AXIS,
            **settings,
        )
        setup = TrainingSetup(
            model,
            costs.mesh,
            times.device,
            times.precision,
            times,
            replicas * batches * sequences,
            {"": tokens},
            options,
        )
        return simulate_step(setup, remembered).iteration_s

    batches = row.count("global_batch") // replicas // sequences
    if batches <= 3 * stages:
        step_s = float(seconds(batches))
    else:  # from twice the stages on each round of micro-batches takes as long as the one before
        two, three = seconds(2 * stages), seconds(3 * stages)
        step_s = float(two + (three - two) * (batches - 2 * stages) / stages)
    batch = row.count("global_batch")
    if row.cells["unit"] == "tokens/s/gpu":
        return batch * tokens / step_s / gpus
    # equation 3 of the paper: the forward pass counts four times, masked scores are counted
    layers, hidden = row.count("layers"), row.count("hidden")
    rest = 1 + tokens / (6 * hidden) + VOCABULARIES["sc21"] / (16 * layers * hidden)
    return 96 * batch * tokens * layers * hidden**2 * rest / step_s / gpus / 1e12


# --- fit

Floats = npt.NDArray[np.float64]
GROUPS = {"mpt a100 bf16": 2, "mpt h100 bf16": 2, "nemo h100 fp8": 2}
"""Sets whose rows are fitted, each with efficiencies of its own, and Gauss-Newton steps."""


def fit(rows: Sequence[StepRow]) -> dict[str, tuple[float, float]]:
    """Return products' and attention's efficiencies by group: least squares of the logarithms of speeds."""
    found = {}
    for name, steps in GROUPS.items():
        own = [row for row in rows if row.name == name and row.use == "fitted"]
        times = row_times(own[0], {})
        assert times.attention_efficiency is not None, "presets have it"
        start = np.log([times.efficiency, times.attention_efficiency])
        products, attention = np.exp(_least_squares(partial(_residuals, own, name), start, steps)).tolist()
        found[name] = products, attention
    return found


def _residuals(rows: Iterable[StepRow], name: str, logs: Floats) -> Floats:
    products, attention = np.minimum(np.exp(logs), 1).tolist()
    return np.log([predicted(row, {name: (products, attention)}) / row.measured for row in rows])


def _least_squares(residuals: Callable[[Floats], Floats], start: Floats, steps: int) -> Floats:
    """Return where Gauss-Newton ends, at most 0.3 from where it is in each step."""
    logs, width = start, 0.01
    for _ in range(steps):
        here = residuals(logs)
        slopes = [(residuals(logs + width * unit) - here) / width for unit in np.eye(len(logs))]
        logs = logs + np.clip(np.linalg.lstsq(np.array(slopes).T, -here, rcond=None)[0], -0.3, 0.3)
    return logs


# --- errors


@dataclass(frozen=True)
class Errors:
    """Errors |predicted / measured - 1| of some rows."""

    mean: float
    worst: float
    rows: int


def errors(ratios: Iterable[float]) -> Errors:
    """Return the errors of ratios of predicted to measured speeds."""
    off = [abs(ratio - 1) for ratio in ratios]
    return Errors(sum(off) / len(off), max(off), len(off))


def trend(pairs: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return Spearman's rank correlation of ratios with tp x pp, and the change of a ratio per doubling."""
    sizes, ratios = (np.array(column, float) for column in zip(*pairs, strict=True))
    correlation = np.corrcoef(_ranks(sizes), _ranks(ratios))[0, 1]
    return float(correlation), float(np.polyfit(np.log2(sizes), ratios, 1)[0])


def _ranks(values: Floats) -> Floats:
    """Return ranks, of equal values their mean."""
    return np.array([(values < one).sum() + ((values == one).sum() - 1) / 2 for one in values])


def tables(rows: Sequence[StepRow], ratios: Sequence[float]) -> list[Table]:
    """Every row, then errors by set, whose note has their trend with tp x pp."""
    steps = []
    for row, ratio in zip(rows, ratios, strict=True):
        cells = row.cells
        unit = " TFLOP/s" if cells["unit"].startswith("T") else ""
        mesh = ",".join(f"{name}={size}" for name, size in row.axes.items() if size > 1)
        words = [
            cells["set"],
            cells["model"],
            cells["sequence"],
            f"{cells['gpus']} {cells['gpu']}",
            f"`{mesh}`",
        ]
        figures = [f"{row.measured:g}{unit}", f"{ratio * row.measured:.4g}", f"{100 * (ratio - 1):+.1f}%"]
        steps.append([*words, cells["precision"], cells["recompute"], *figures, row.use])
    groups: dict[tuple[str, str], list[float]] = {}
    for row, ratio in zip(rows, ratios, strict=True):
        for name in (row.name, "all"):
            groups.setdefault((name, row.use), []).append(ratio)
    ordered = sorted(groups.items(), key=lambda one: (one[0][0] == "all", one[0][1]))
    found = [(*key, errors(own)) for key, own in ordered]
    sets = [[name, use, f"{one.rows}", f"{one.mean:.1%}", f"{one.worst:.1%}"] for name, use, one in found]
    trends = []
    for name in ("sc21 a100 bf16", "nemo h100 fp8"):
        pairs = [(row.model_axes, ratio) for row, ratio in zip(rows, ratios, strict=True) if row.name == name]
        correlation, slope = trend(pairs)
        trends.append(
            f"{name}: rank correlation of errors with tp x pp {correlation:+.2f}, {slope:+.1%} a doubling."
        )
    columns = ["set", "model", "tokens", "GPUs", "mesh", "precision", "recompute", "measured", "predicted"]
    return [
        Table("Published steps", [*columns, "error", ""], steps),
        Table(
            "Errors of published steps",
            ["rows", "use", "number", "mean error", "worst"],
            sets,
            " ".join(trends),
        ),
    ]


def main() -> None:
    """Print presets fitted again, or the tables, and write these into the record training-figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True, help=f"folder with {FILE}")
    parser.add_argument("--fit", action="store_true", help="fit again, and print the efficiencies")
    parser.add_argument("--write", action="store_true", help="into the record training-figures")
    asked = parser.parse_args()
    if not (asked.rows / FILE).is_file():
        print(f"skipped: no {FILE} in {asked.rows}")
        return
    rows = read_rows(asked.rows)
    if asked.fit:
        for name, (products, attention) in fit(rows).items():
            print(f"{name}: products {products:.3f}, attention {attention:.3f}")
        return
    found = tables(rows, [predicted(row) / row.measured for row in rows])
    show(*found)
    if asked.write:
        write_tables("training-figures", *found)


if __name__ == "__main__":
    main()
