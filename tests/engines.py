"""Optional engines that tests use, which of them are missing here, and which may not be."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

REQUIRED = "TREADLE_REQUIRED_ENGINES"
"""Variable with the engines, or ``all``, whose absence fails a run; ``.ci/run`` sets it."""

ENGINES = (
    "MPI",
    "testbed",
    "CP-SAT",
    "Chakra",
    "bfloat16",
    "torch",
    "matplotlib",
    "SimGrid",
    "Chromium",
    "libfabric",
)


def has_module(name: str) -> bool:
    """Whether a module can be imported; one of a package that is absent cannot."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def missing_engines() -> Mapping[str, str]:
    """Optional engines that tests on this machine cannot use, and why."""
    missing: dict[str, str] = {}
    if not has_module("mpi4py"):
        missing["MPI"] = "mpi4py is not installed; pip install 'treadle[mpi]'"
    elif mpirun() is None:
        missing["MPI"] = "no mpirun on the PATH or beside the interpreter"
    reason = testbed_refusal()
    if reason is not None:
        missing["testbed"] = reason
    if not has_module("ortools"):
        missing["CP-SAT"] = "ortools is not installed; pip install 'treadle[exact]'"
    if not has_module("google.protobuf"):
        missing["Chakra"] = "protobuf is not installed; pip install 'treadle[chakra]'"
    if not has_module("ml_dtypes"):
        missing["bfloat16"] = "ml_dtypes is not installed; pip install 'treadle[bfloat16]'"
    if not has_module("torch"):
        missing["torch"] = "PyTorch is not installed; pip install 'treadle[torch]'"
    if not has_module("matplotlib"):
        missing["matplotlib"] = "matplotlib is not installed; pip install 'treadle[plot]'"
    if not (shutil.which("smpicc") and shutil.which("smpirun")):
        missing["SimGrid"] = "no smpicc and smpirun on the PATH; Debian's libsimgrid-dev has them"
    if not Path("/usr/include/rdma/fabric.h").exists():
        missing["libfabric"] = "no rdma/fabric.h; Debian's libfabric-dev has it"
    if not has_module("playwright"):
        missing["Chromium"] = "playwright is not installed"
    elif chromium() is None:
        missing["Chromium"] = "no chromium on the PATH; Debian's chromium is one"
    return missing


def chromium() -> str | None:
    """The browser on the PATH."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def testbed_refusal() -> str | None:
    """Why networks cannot be emulated here; None if they can."""
    try:
        from treadle.testbed.network import missing_requirement
    except ImportError as error:  # what is wrong has been said by every test
        return str(error)
    return missing_requirement()


testbed_refusal.__test__ = False  # type: ignore[attr-defined]  # its name begins like a test's


def mpirun() -> str | None:
    """The mpirun beside the running interpreter, else the one on the PATH."""
    beside = Path(sys.executable).parent / "mpirun"
    return str(beside) if beside.exists() else shutil.which("mpirun")


def skipped_against_orders(missing: Iterable[str], reasons: Iterable[str]) -> list[str]:
    """Engines that had to be there, by the variable `REQUIRED`, and were skipped all the same.

    Parameters
    ----------
    missing : iterable of str
        Engines that are missing.
    reasons : iterable of str
        Why tests were skipped; an engine that only some tests lack is named before a colon.
    """
    asked = os.environ.get(REQUIRED, "").replace(",", " ").split()
    required = ENGINES if asked == ["all"] else tuple(asked)
    unknown = [name for name in required if name not in ENGINES]
    said = {reason.removeprefix("Skipped: ").partition(":")[0] for reason in reasons}
    found = [name for name in required if name in {*missing, *said}]
    return found + [f"{name} (unknown to {REQUIRED})" for name in unknown]
