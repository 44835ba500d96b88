"""Times that `achievable` states, next to measured rows, and its errors on rows left out of its fits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from treadle.machines.achievable import Achievable, achievable, measured_constants
from treadle.machines.fitting import MACHINES, SOURCES, accuracies, cross_validate, read_points
from treadle.machines.system import Generation, System
from treadle.reproduction.exhibit import Ours
from treadle.units import format_size

ROWS = "TREADLE_MEASURED"
"""Variable with the folder of measured rows."""
CASES = {
    "sizes": "sizes left out",
    "gpus": "most GPUs left out",
    "sibling": "machine left out, sibling kept",
    "launch": "machine left out, own launch",
    "alone": "machine left out",
}
"""Names of the rows of errors."""
SIZES = (2**12, 2**20, 2**26, 2**29)
"""Sizes of which times are printed."""
_GB = 10**9
SYSTEMS = {
    "a100_sxm": System(Generation.AMPERE, 1, 8, 300 * _GB, cpu="amd"),
    "h200_sxm": System(Generation.HOPPER, 1, 8, 450 * _GB),
    "b300_sxm": System(Generation.BLACKWELL, 1, 8, 900 * _GB),
    "gb300": System(Generation.BLACKWELL, 1, 4, 900 * _GB, cpu="arm"),
    "rtx_pro_6000_server": System(
        Generation.BLACKWELL, 1, 8, 63 * _GB, has_fast_links=False, has_switch=False
    ),
}


def rows_folder() -> Path | None:
    """Return the folder of measured rows, of the variable or next to the project; None if there is none."""
    folder = Path(os.environ.get(ROWS) or "../shared/data/measured")
    return folder if (folder / "nccl.csv").is_file() else None


def _errors(*, anew: bool) -> tuple[Mapping[str, Mapping[str, list[float]]], str]:
    """Return median, 90th percentile and coverage by case and machine, and where they are from."""
    folder = rows_folder() if anew else None
    if folder is None:
        missing = f"; no rows here, set {ROWS} to their folder" if anew else ""
        return measured_constants()["errors"], f"stored with the last fit{missing}"
    found = accuracies(cross_validate(read_points(folder)))
    return {
        case: {name: [one.median, one.ninth_decile, one.coverage] for name, one in of.items()}
        for case, of in found.items()
    }, "fitted again"


def measured(full: bool) -> Iterator[Ours]:
    """Allreduce times of five machines, then errors and shares in the bands."""
    for name in MACHINES:
        for size in SIZES:
            found = achievable(SYSTEMS[name], "allreduce", size)
            assert isinstance(found, Achievable), "it has rows"
            label = f"{SOURCES[name].partition(',')[0]}, {found.n_ranks} GPUs, allreduce {format_size(size)}"
            yield Ours(label, found.time_s * 1e6, "us")
    errors, note = _errors(anew=full)
    for case, words in CASES.items():
        for name, (median, ninth_decile, coverage, *_) in errors[case].items():
            label = f"{words}, {'all' if name == 'all' else SOURCES[name].partition(',')[0]}"
            yield Ours(f"{label}: median", 100 * median, "% error", note)
            yield Ours(f"{label}: 90th percentile", 100 * ninth_decile, "% error")
            if name == "all":
                yield Ours(f"{label}: in bands of 90%", 100 * coverage, "% of rows")
            note = ""
