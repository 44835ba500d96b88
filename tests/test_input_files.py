"""Input files: regular files and pipes are read up to a limit, devices are not opened."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import treadle
from treadle import input_files
from treadle.cli.main import main
from treadle.errors import FormatError
from treadle.input_files import is_file, read_bytes, read_head
from treadle.schedules.plan_files.archive import dump_plan
from treadle.topologies.files import dump_topology


@contextmanager
def piped(data: bytes) -> Iterator[str]:
    """A pipe as a shell's ``<(...)`` names it, which gives `data` once."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        thread.join()
        os.close(reading)


def test_pipes_are_read_once_and_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with piped(b"0123456789") as path:
        assert is_file(path)
        assert [read_head(path, 4), read_bytes(path, 10), read_bytes(path, 10)] == [
            b"0123",
            *[b"0123456789"] * 2,
        ]
        with pytest.raises(FormatError, match="is larger than 9 bytes"):
            read_bytes(path, 9)
    monkeypatch.setattr(input_files, "MAX_PIPE_BYTES", 9)
    with piped(b"0123456789") as path, pytest.raises(FormatError, match="more than 9 bytes"):
        read_bytes(path, 100)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
@pytest.mark.parametrize(
    "line",
    [
        "bound {} allgather",
        "topology show {}",
        "verify {}",
        "solve ring:4 alltoall --demands {}",
        "train {} --fabric ring:4 --gpu h100 --mesh dp=4",
        "calibrate {}",
        "draw {} -o x.svg",
        "diagnose {}",
        "solve ring:4 allgather --cost-model {} --size 1MB",
    ],
)
def test_commands_do_not_read_devices(line: str, device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.format(device).split()) == 2
    said = capsys.readouterr().err
    assert device in said
    assert "device" in said or "file that exists" in said, said


@pytest.mark.parametrize(
    ("line", "content"),
    [
        ("bound {} allgather", lambda plan: dump_topology(plan.topology).encode()),
        ("topology show {}", lambda plan: dump_topology(plan.topology).encode()),
        ("topology show {}", dump_plan),
        ("topology export {}", dump_plan),
        ("draw {} -o x.svg", dump_plan),
        ("verify {} --topology ring:4", dump_plan),
        ("simulate {} --size 1MB", dump_plan),
        ("compare ring:4 allgather --with {}", dump_plan),
        ("verify {}", lambda plan: treadle.lower(plan, to="msccl-xml").text.encode()),
    ],
)
def test_commands_read_pipes(
    line: str,
    content: Callable[[treadle.Plan], bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with piped(content(treadle.solve("ring:4", "allgather").plan)) as path:
        status = main(line.format(path).split())
    assert status == 0, capsys.readouterr().err
