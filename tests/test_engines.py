"""Optional packages may be absent: the suite says so and goes on, or fails where it was told to have them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from child_processes import finished
from engines import ENGINES, REQUIRED, missing_engines, skipped_against_orders

TESTS = Path(__file__).resolve().parent
SUITE = ["-p", "no:cacheprovider", str(TESTS / "test_units.py")]

WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None  # import and find_spec then behave as if it were not installed
import pytest
sys.exit(pytest.main({arguments!r}))
"""


def suite_without(*names: str, required: str) -> tuple[int, str]:
    """Exit status and last lines of a short run of pytest without some packages."""
    environment = {**os.environ, REQUIRED: required, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = WITHOUT.format(names=names, arguments=["--rootdir", str(TESTS.parent), "-q", *SUITE])
    done = finished([sys.executable, "-c", code], environment=environment, cwd=TESTS.parent)
    assert "INTERNALERROR" not in done.stdout + done.stderr
    return done.returncode, done.stdout


def test_absent_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("google", "google.protobuf", "mpi4py", "ortools", "ml_dtypes", "torch", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    missing = missing_engines()
    assert set(missing) >= {"MPI", "CP-SAT", "Chakra", "bfloat16", "torch", "matplotlib"}
    assert set(missing) <= set(ENGINES)
    assert "treadle[chakra]" in missing["Chakra"]


def test_a_run_without_protobuf_ends_well_unless_it_is_required() -> None:
    status, out = suite_without("google", "google.protobuf", required="")
    assert (status, "Chakra (protobuf is not installed" in out) == (0, True), out
    status, out = suite_without("google", "google.protobuf", required="all")
    assert (status, "FAILED: Chakra is required here and was skipped" in out) == (1, True), out


@pytest.mark.parametrize(
    ("required", "missing", "reasons", "found"),
    [
        ("", ["MPI"], ["Skipped: MPI: no Open MPI"], []),
        ("torch", ["MPI"], [], []),
        ("MPI, torch", ["MPI"], [], ["MPI"]),
        ("all", ["testbed", "SimGrid"], [], ["testbed", "SimGrid"]),
        ("all", [], ["Skipped: MPI: setpriv is not installed", "Skipped: no spanning trees here"], ["MPI"]),
        ("torch NVSHMEM", [], [], [f"NVSHMEM (unknown to {REQUIRED})"]),
    ],
)
def test_what_was_skipped_against_orders(
    monkeypatch: pytest.MonkeyPatch, required: str, missing: list[str], reasons: list[str], found: list[str]
) -> None:
    monkeypatch.setenv(REQUIRED, required)
    assert skipped_against_orders(missing, reasons) == found


def test_writes_outside_temporary_folders_are_refused(tmp_path: Path) -> None:
    outside = Path("/a-test-wrote-this")  # the working tree may itself be in a temporary folder
    for write in (
        lambda: outside.write_bytes(b""),
        lambda: outside.mkdir(),
        lambda: os.close(os.open(outside, os.O_CREAT | os.O_WRONLY)),
        lambda: os.symlink(tmp_path, outside),
        lambda: os.rename(tmp_path, outside),
    ):
        with pytest.raises(AssertionError, match="a-test-wrote-this"):
            write()
    assert not outside.exists()
    (tmp_path / "inside").write_bytes(b"")
    assert Path.home().is_relative_to(Path(os.environ["XDG_DATA_HOME"]).parent)
