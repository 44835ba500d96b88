"""Texts of runtimes and inputs of users with damages: refused in one line, or judged right."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from reference.msccl_execution import violations_of
from samples.strategies import damaged, damages
from treadle.errors import TreadleError
from treadle.finder.designing.fabric import describe_fabric
from treadle.finder.workload import load_workload
from treadle.formats.msccl.writer import Profile
from treadle.formats.nccl.reader import parse_nccl_graph
from treadle.formats.routes.reader import read_route_json
from treadle.inputs.demand_files import read_demands
from treadle.inputs.runtime_files import verify_runtime_file
from treadle.simulation.calibration.calibration import calibrate_rows
from treadle.simulation.calibration.measurements import read_measurements
from treadle.topologies.files import dump_topology, load_topology
from treadle.topologies.topology import Topology

from ..finding import Case, UnservedError, require
from . import samples
from .target import Target


@st.composite
def _damaged_texts(draw: Any, names: tuple[str, ...], sound: Callable[[str], str]) -> Case:
    name = draw(st.sampled_from(names))
    return {"base": name, "text": damaged(sound(name), draw(damages()))}


def one_line(error: TreadleError) -> None:
    """A refusal is one line of bearable length; always raises."""
    require("\n" not in str(error), "a message of several lines", str(error))
    require(len(str(error)) < 2000, "a long message", str(error))
    raise UnservedError from None


def _check_text(case: Case) -> None:
    try:
        seen = verify_runtime_file(case["text"], source="damaged")
    except TreadleError as error:
        one_line(error)
        return
    if seen.format.startswith("msccl-xml"):
        profile = next(str(p) for p in Profile if f"({p})" in seen.format)
        slow = violations_of(case["text"], profile)
        require(
            bool(slow) == bool(seen.violations), "two verdicts on a text", (slow[:2], seen.violations[:2])
        )


INPUTS: dict[str, Callable[[Path], object]] = {
    "topology": load_topology,
    "routes": lambda path: read_route_json(path.read_text(encoding="utf-8", errors="surrogatepass")),
    "demands csv": read_demands,
    "demands json": read_demands,
    "measurements": lambda path: calibrate_rows(read_measurements(path)),
    "measured table": lambda path: calibrate_rows(read_measurements(path)),
    "workload": load_workload,
    "nccl graph": lambda path: parse_nccl_graph(path.read_text(encoding="utf-8", errors="surrogatepass")),
}
"""How each format is read, as far as it is read without a command."""


def _check_reader(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"
        path.write_bytes(case["text"].encode("utf-8", "surrogatepass"))
        try:
            found = INPUTS[case["base"]](path)
        except TreadleError as error:
            one_line(error)
            return
        except UnicodeDecodeError:
            raise UnservedError from None  # of the target's own reading
        if isinstance(found, Topology):
            path.write_text(dump_topology(found), encoding="utf-8")
            require(load_topology(path) == found, "a fabric changes when it is written and read")
            describe_fabric(found)


TEXTS = Target("texts", _damaged_texts(tuple(samples.TEXTS), samples.text), _check_text, 120)
READERS = Target("readers", _damaged_texts(tuple(INPUTS), samples.input_text), _check_reader, 300)
