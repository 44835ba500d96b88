"""Hostile plans: small files that stand for much are refused in one line, before memory is taken for them."""

from __future__ import annotations

import io
import json
import re
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import child_processes
from treadle import planning
from treadle.cli.main import main
from treadle.cli.memory_fence import memory_fence
from treadle.errors import MemoryLimitError
from treadle.schedules.plan_files.archive import dump_plan, load_plan, parse_plan

Content = dict[str, bytes]

MEGABYTE = 2**20


def npy(values: object, dtype: str = "|i1") -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(values).astype(dtype), version=(1, 0))
    return buffer.getvalue()


@cache
def plan_file(fabric: str, collective: str, algorithm: str | None = None) -> bytes:
    return dump_plan(planning.solve(fabric, collective, algorithm=algorithm).plan)


def members(content: bytes) -> Content:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, content: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def with_manifest(content: Content, change: Callable[[dict[str, Any]], object]) -> Content:
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    return {**content, "manifest.json": json.dumps(manifest).encode()}


def trees() -> Content:
    return members(plan_file("ring(2)", "allgather"))


def sends() -> Content:
    return members(plan_file("ring(2)", "allgather", "bfb"))


FORMS = {
    "forests": ("dgx_a100(1)", "allgather", "ring"),
    "steps": ("ring(4)", "allgather", "bfb"),
    "exchange": ("ring(4)", "alltoall", "tsmcf"),
    "routes": ("generalized_kautz(3, 10)", "alltoall", "routes"),
    "factored": ("dgx_a100(40)", "allgather", None),
}


@pytest.mark.parametrize("form", FORMS)
def test_long_columns_are_refused_unread(form: str, tmp_path: Path) -> None:
    """Columns in turn, as 12 million zeros: 12 KB of file."""
    content = members(plan_file(*FORMS[form]))
    names = [name for name in content if name.endswith(".npy")]
    zeros = npy(np.zeros(12 * 10**6))
    for name in names[:: max(1, len(names) // 3)]:
        path = write(tmp_path / "plan", {**content, name: zeros})
        tracemalloc.start()
        try:
            with pytest.raises(MemoryLimitError, match=EXPECTED) as caught:
                load_plan(path, max_memory_bytes=64 * MEGABYTE)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert "\n" not in str(caught.value)
        assert peak < 4 * MEGABYTE, name


EXPECTED = r"may take .* 64MB are granted.* \(--max-memory \d+GB; in Python max_memory_bytes"


def declaring_much() -> bytes:
    """One member says that it is four gigabytes long."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in trees().items():
            archive.writestr(name, data)
    found = bytearray(content.getvalue())
    at = found.rindex(b"forests/0/entry_units.npy") - 46
    assert found[at : at + 4] == b"PK\x01\x02"
    found[at + 24 : at + 28] = struct.pack("<I", 2**32 - 2)
    return bytes(found)


def overlapping() -> bytes:
    """Ten members that are one in the file."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in trees().items():
            archive.writestr(name, data)
        one = archive.filelist[0]
        for number in range(10):
            other = copy(one)
            other.filename = f"forests/{number}/parents.npy"
            archive.filelist.append(other)
        archive._didModify = True  # type: ignore[attr-defined]
    return content.getvalue()


def written(content: Content) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def broadcastable() -> Content:
    """Parents of one tree for all."""
    return {**trees(), "forests/0/parent.npy": npy([[-1, 0]])}


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "declared": (declaring_much, "bytes out of .* more than any compression gives"),
    "overlap": (overlapping, "members of the archive overlap"),
    "deep": (lambda: written({**trees(), "manifest.json": b"[" * 10**5}), "nested too deeply"),
    "wide": (
        lambda: written({**trees(), "manifest.json": b"[" + b"{}," * (2 * 10**7)}),
        "may take .* --max-memory|--max-memory",
    ),
    "entries": (
        lambda: written(with_manifest(trees(), lambda m: m.update(entries=m["entries"] * 10**5))),
        "entries: 100000, expected 1 to 1000",
    ),
    "shapes": (lambda: written(broadcastable()), "parent has shape"),
    "factored": (
        lambda: written(
            with_manifest(
                members(plan_file(*FORMS["factored"])),
                lambda m: m.update(factored=[{"layers": 16}] * 1000),
            )
        ),
        "factored",
    ),
    "header": (
        lambda: written(
            {
                **trees(),
                "forests/0/entry_units.npy": npy(np.ones(2)).replace(b"(2,)", b"(9" + b"9" * 15 + b",)"),
            }
        ),
        "entry_units.npy",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, message = HOSTILE[name]
    path = tmp_path / "plan"
    path.write_bytes(make())
    assert main(["verify", str(path)]) in (2, 6)
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)


def test_witnesses_of_long_fractions_are_no_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their common denominator has more digits than Python prints."""
    fractions = [f"1/{10**900 + number}" for number in range(16)]
    content = with_manifest(
        members(plan_file("ring(8)", "allreduce", "ring")),
        lambda m: m.update(witness={"kind": "lengths", "lengths": fractions}, optimal_algbw="1/1"),
    )
    assert main(["verify", str(write(tmp_path / "plan", content))]) == 1
    assert "no common denominator below 2**8192" in " ".join(capsys.readouterr().out.split())


def test_what_is_granted_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Many entries on one path: 833 MB by the budget, and within what is granted by default."""
    path = write(tmp_path / "plan", many_entries(10**6))
    assert main(["verify", str(path), "--max-memory", "100MB"]) == 6
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "100MB are granted" in error
    assert main(["verify", str(path), "-q"]) == 0
    with pytest.raises(MemoryLimitError):
        parse_plan(path.read_bytes(), source="plan", max_memory_bytes=100 * MEGABYTE)
    assert main(["verify", str(path), "--max-memory", "lots"]) == 2


def many_entries(n: int) -> Content:
    """Two trees of n units each, whose edges are n path entries of one unit."""
    return {
        **trees(),
        "forests/0/root_multiplicity.npy": npy([n, n], "<i4"),
        "forests/0/tree_root.npy": npy([0, 1]),
        "forests/0/tree_multiplicity.npy": npy([n, n], "<i4"),
        "forests/0/parent.npy": npy([[-1, 0], [1, -1]]),
        "forests/0/entry_units.npy": npy(np.ones(2 * n)),
        "forests/0/entry_path.npy": npy(np.repeat([0, 1], n)),
        "forests/0/entry_count.npy": npy([0, n, n, 0], "<i4"),
        "forests/0/path_links.npy": npy([0, 1]),
        "forests/0/path_length.npy": npy([1, 1]),
    }


def many_paths(n: int) -> Content:
    """Paths that no tree uses."""
    return {
        **trees(),
        "forests/0/path_links.npy": npy(np.zeros(n)),
        "forests/0/path_length.npy": npy(np.ones(n)),
    }


def many_sends(n: int) -> Content:
    """The same send again and again."""
    return {
        **sends(),
        **{f"steps/0/{key}.npy": npy(np.zeros(n)) for key in ("shard", "link", "low")},
        "steps/0/high.npy": npy(np.ones(n)),
        "steps/0/step_count.npy": npy([n], "<i4"),
    }


def many_cuts(n: int) -> Content:
    """Sends of shards that are cut at n places."""
    low = np.arange(n) * 8
    content = {
        **many_sends(n),
        "steps/0/low.npy": npy(low, "<i4"),
        "steps/0/high.npy": npy(low + 8, "<i4"),
    }
    return with_manifest(content, lambda m: m.update(steps=[{"n_chunks": 2**24}]))


_JUDGE = """
import resource, sys
from treadle.cli.main import main
main(["topology", "show", "ring(4)", "-q"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
main(["verify", sys.argv[1], "-q", "--max-memory", sys.argv[2]])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize(
    ("make", "n", "granted"),
    [
        (many_entries, 25 * 10**4, "110MB"),
        (many_paths, 25 * 10**4, "95MB"),
        (many_sends, 10**6, "70MB"),
        (many_cuts, 10**5, "400MB"),
    ],
)
def test_no_plan_takes_more_than_it_was_granted(
    make: Callable[[int], Content], n: int, granted: str, tmp_path: Path
) -> None:
    """Plans that are granted little more than the budget asks for, in a process of their own."""
    path = write(tmp_path / "plan", make(n))
    load_plan(path, max_memory_bytes=int(granted[:-2]) * MEGABYTE)
    with pytest.raises(MemoryLimitError):
        load_plan(path, max_memory_bytes=int(granted[:-2]) * MEGABYTE // 2)
    run = child_processes.finished([sys.executable, "-c", _JUDGE, path, granted])
    before, after = (int(line) for line in run.stdout.splitlines() if line.isdigit())
    assert after - before < int(granted[:-2]) * 1024


def test_large_plans_are_read_by_default() -> None:
    """65,536 GPUs in factored form."""
    content = plan_file("dgx_h100(8192)", "allgather")
    assert parse_plan(content, source="plan").collective.n_ranks == 65536


def test_values_that_ask_for_much_meet_a_fence() -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with (
        pytest.raises(MemoryLimitError, match=r"plan: reading .* 64MB .* \(--max-memory\)") as caught,
        memory_fence(64 * MEGABYTE, "plan"),
    ):
        np.ones(2**30)
    assert "\n" not in str(caught.value)
    with memory_fence(64 * MEGABYTE, "plan"):
        assert np.ones(4 * MEGABYTE).all()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
