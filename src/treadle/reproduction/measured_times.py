"""Times that `achievable` states, next to measured rows, and its errors on rows left out of its fits."""

from __future__ import annotations

from treadle.machines.achievable import Achievable, achievable, measured_constants
from treadle.machines.system import Generation, System
from treadle.reproduction.paper_figure import Rows
from treadle.units import format_size

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


def _machine(name: str) -> str:
    source: str = measured_constants()["systems"][name]["source"]
    return source.partition(",")[0]


def measured(_: bool) -> Rows:
    """Yield allreduce times of five machines, then errors and shares in the bands, as the last fit stored."""
    for name, system in SYSTEMS.items():
        for size in SIZES:
            found = achievable(system, "allreduce", size)
            assert isinstance(found, Achievable), "it has rows"
            label = f"{_machine(name)}, {found.n_ranks} GPUs, allreduce {format_size(size)}"
            yield label, found.time_s * 1e6, "us"
    for case, words in CASES.items():
        for name, (median, ninth_decile, coverage, *_) in measured_constants()["errors"][case].items():
            label = f"{words}, {'all' if name == 'all' else _machine(name)}"
            yield f"{label}: median", 100 * median, "% error", "stored with the fit"
            yield f"{label}: 90th percentile", 100 * ninth_decile, "% error"
            if name == "all":
                yield f"{label}: in bands of 90%", 100 * coverage, "% of rows"
