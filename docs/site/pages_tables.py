"""Reference tables from the package's own records: formats, files of fabrics, causes, models and devices."""

from __future__ import annotations

import sys
from pathlib import Path

from treadle.diagnosis.catalogue import RESTRICTIONS, RULES
from treadle.formats.msccl.block_assignment import LIMITS
from treadle.planning import own_formats
from treadle.topologies.readers.reader import topology_formats
from treadle.training.devices import ACCELERATORS, ELEMENT_BYTES
from treadle.training.models.config_json import CONFIG_READERS
from treadle.training.models.zoo import MODELS, zoo_model

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.records import Table


def table_pages() -> dict[str, str]:
    """Text by name."""
    return {
        "formats": _page("Formats for runtimes", _formats(), _limits()),
        "fabric-files": _page("Files of other tools", _readers()),
        "causes": _page("Causes that diagnose looks for", _causes(), _variables()),
        "models": _page("Models and devices", _models(), _devices(), _configurations()),
    }


def _page(title: str, *tables: Table) -> str:
    lines = (line for table in tables for line in table.lines())
    return "\n".join((f"# {title}\n", "Made from the package's own records.\n", *lines))


def _formats() -> Table:
    rows = [
        (f"`{one.name}`", one.files, one.readers, one.collectives, one.sizes, one.check)
        for one in own_formats()
    ]
    return Table("Formats", ("`--to`", "files", "read by", "collectives", "sizes", "checked"), rows)


def _limits() -> Table:
    rows = [
        (name, *(str(value) for value in vars(limits).values() if isinstance(value, int)))
        for name, limits in LIMITS.items()
    ]
    columns = [key.replace("_", " ") for key, value in vars(next(iter(LIMITS.values()))).items()]
    return Table("Limits of MSCCL XML", ("profile", *columns), rows)


def _readers() -> Table:
    rows = [(f"`{one.name}`", one.title, one.contents, one.missing or "-") for one in topology_formats()]
    return Table("Formats of fabrics", ("format", "file", "it has", "to be given"), rows)


def _causes() -> Table:
    rows = [
        (f"`{rule.name}`", "always" if rule.is_always else "if slow", rule.looks_for, rule.evidence)
        for rule in RULES
    ]
    return Table("Causes", ("cause", "listed", "looks for", "lines"), rows)


def _variables() -> Table:
    rows = [[f"`{restriction.name}`"] for restriction in RESTRICTIONS]
    return Table("Variables that `environment` knows", ["variable"], rows)


def _models() -> Table:
    rows = []
    for name in MODELS:
        model = zoo_model(name)
        if len(model.streams) > 1:
            tokens, words = {"encoder": 512, "decoder": 512}, "512 + 512"
        else:
            count = 1 if model.unit == "sample" else min(model.max_tokens, 4096)
            tokens, words = {"": count}, "a sample" if model.unit == "sample" else str(count)
        active = _in_units(model.active_parameters) if model.active_parameters < model.parameters else ""
        flops = _in_units(float(model.forward_flops(tokens)))
        rows.append((f"`{name}`", f"{model.parameters:,}", active, words, flops, model.source))
    note = (
        "FLOPs of one sequence of so many tokens (encoder + decoder) or of one sample, forward; causal "
        'attention counts half of its scores. "Active": what a token uses of the experts.'
    )
    columns = ("MODEL", "parameters", "active", "tokens", "forward FLOPs", "source")
    return Table("Models", columns, rows, note)


def _devices() -> Table:
    rows = []
    for name, one in ACCELERATORS.items():
        peaks = (
            f"{one.peak_flops[kind] / 1e12:g}" if kind in one.peak_flops else "" for kind in ELEMENT_BYTES
        )
        sizes = str(one.memory_bytes // 2**30), f"{one.memory_bytes_per_s / 1e9:g}"
        rows.append((f"`{name}`", *peaks, *sizes, one.source))
    note = "Peaks of dense products in TFLOP/s; one MI250 is two devices."
    return Table("Devices", ("GPU", *ELEMENT_BYTES, "GB", "GB/s", "source"), rows, note)


def _configurations() -> Table:
    return Table("Configurations that are read", ["model_type"], [[f"`{name}`"] for name in CONFIG_READERS])


def _in_units(number: float) -> str:
    """Four digits and a unit."""
    unit, size = next(one for one in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("", 1)) if number >= one[1])
    return f"{number / size:.4g} {unit}".strip()
