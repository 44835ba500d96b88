"""Links with a delay: frames are never early, queues end, and the process never outlives its owner."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from child_processes import finished, first_line, search_path, started, wait_until
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.testbed.delay_line import build_delay_line, delay_line
from treadle.testbed.layout import EmulatedLayout, make_layout
from treadle.testbed.network import EmulatedNetwork, missing_requirement, network, new_prefix
from treadle.topologies import parse

RATE, DELAY_NS = 400_000, 60_000_000
HOLD = """
from treadle.testbed.layout import make_layout
from treadle.testbed.network import network, new_prefix
from treadle.topologies import parse
prefix = new_prefix()
with network(make_layout(parse("ring(3)"), 10**6, prefix=prefix, delay_ns=10**6), prefix):
    print(prefix, flush=True)
    time.sleep(60)
"""
RECEIVE = """
import socket, sys, time
address, count = sys.argv[1], int(sys.argv[2])
with socket.socket(type=socket.SOCK_DGRAM) as own:
    own.settimeout(60)
    own.bind((address, 7000))
    print("bound", flush=True)
    for _ in range(count):
        own.recv(10_000)
        print(time.monotonic(), flush=True)
"""
SEND = """
import socket, sys, time
address, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with socket.socket(type=socket.SOCK_DGRAM) as own:
    print(time.monotonic())
    for _ in range(count):
        own.sendto(bytes(size), (address, 7000))
"""


@pytest.fixture(autouse=True)
def _possible() -> None:
    reason = missing_requirement(with_delay=True)
    if reason is not None:
        pytest.skip(f"testbed: {reason}")


@contextlib.contextmanager
def up(fabric: str, rate: int = RATE) -> Iterator[tuple[EmulatedLayout, EmulatedNetwork]]:
    prefix = new_prefix()
    layout = make_layout(parse(fabric), rate, prefix=prefix, delay_ns=DELAY_NS)
    with network(layout, prefix) as built:
        yield layout, built


def inside(layout: EmulatedLayout, node: int, script: str, *words: object) -> list[str]:
    return ["ip", "netns", "exec", layout.namespaces[node], sys.executable, "-c", script, *map(str, words)]


def test_no_frame_comes_before_its_bytes_and_its_delay() -> None:
    """Over two links of a one-way ring: the delay twice; bytes of all frames, and of one on the second."""
    with up("ring(3, bidirectional=False)") as (layout, built):
        target = layout.address(2)
        with started(inside(layout, 2, RECEIVE, target, 5)) as receiver:
            assert first_line(receiver) == "bound"
            # the first also asks for addresses, behind which later ones would come together
            assert finished(inside(layout, 0, SEND, target, 1, 8000)).returncode == 0
            first_line(receiver)
            sent = finished(inside(layout, 0, SEND, target, 4, 8000))
            assert sent.returncode == 0, sent.stderr
            output, problems = receiver.communicate(timeout=60)
        assert receiver.returncode == 0, problems
        taken = [float(line) - float(sent.stdout) for line in output.split()]
        assert len(taken) == 4
        frame_s = (8000 + 8 + 20 + 14) / RATE
        for place, seconds in enumerate(taken):
            assert seconds >= (place + 2) * frame_s + 2 * DELAY_NS / 1e9
        assert built.line is not None
        figures = built.line.statistics()
        assert figures.frames >= 10  # and the questions who has an address
        assert figures.dropped == 0
        assert figures.latest_s > 0


def test_what_a_full_queue_has_no_place_for_is_dropped() -> None:
    with up("ring(3)") as (layout, built):
        assert finished(inside(layout, 0, SEND, layout.address(1), 1, 10)).returncode == 0
        assert built.line is not None
        line = built.line
        wait_until(
            lambda: line.statistics().frames >= 3, what="a first frame, for which the address is asked"
        )
        assert finished(inside(layout, 0, SEND, layout.address(1), 5000, 8900)).returncode == 0
        wait_until(lambda: line.statistics().dropped > 0, what="frames dropped")
        assert line.statistics().dropped < 5000 - 2**25 // 8942 + 100


def test_what_has_arrived_makes_place() -> None:
    """Twice 27 MB, of which 32 MiB find a place at once."""
    with up("ring(3)", rate=10**8) as (layout, built):
        assert built.line is not None
        line = built.line
        assert finished(inside(layout, 0, SEND, layout.address(1), 1, 10)).returncode == 0
        wait_until(
            lambda: line.statistics().frames >= 3, what="a first frame, for which the address is asked"
        )
        for burst in (1, 2):
            assert finished(inside(layout, 0, SEND, layout.address(1), 3000, 8900)).returncode == 0
            wait_until(lambda least=3000 * burst: line.statistics().frames >= least, what="all frames")
        assert line.statistics().dropped == 0


def test_a_killed_owner_takes_the_links_along() -> None:
    with started([sys.executable, "-c", HOLD], env={**os.environ, "PYTHONPATH": search_path()}) as owner:
        first_line(owner)
        children = Path(f"/proc/{owner.pid}/task/{owner.pid}/children").read_text(encoding="ascii").split()
        lines = [child for child in children if name_of(child).startswith("delay-line")]
        assert len(lines) == 1
        owner.kill()
        owner.communicate(timeout=30)
        wait_until(lambda: not name_of(lines[0]).startswith("delay-line"), what="the end of the links")


def name_of(process: str) -> str:
    """What a process is called; nothing if it has ended."""
    try:
        name, _, state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")
    except OSError:
        return ""
    return "" if state.split()[0] in "ZX" else name.partition("(")[2]


def test_links_that_cannot_be_made_are_told() -> None:
    with (
        pytest.raises(ScheduleError, match=r"delay line: /nowhere: No such file"),
        delay_line(["l0 /nowhere 1 1 /nowhere 1 1"]),
    ):
        raise AssertionError
    with (
        pytest.raises(ScheduleError, match=r"expected a pair of links, found l0 /proc"),
        delay_line(["l0 /proc/self/ns/net 1"]),
    ):
        raise AssertionError


def test_it_is_built_once_and_needs_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_delay_line(directory=tmp_path)
    stamp = first.stat().st_mtime_ns
    assert build_delay_line(directory=tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(MissingDependencyError, match="need a C compiler"):
        build_delay_line(directory=tmp_path)


def test_no_answer_of_a_line_that_has_ended() -> None:
    with up("ring(3)") as (_, built):
        assert built.line is not None
        process = built.line._process
        process.kill()
        process.wait(30)
        with pytest.raises(ScheduleError, match="delay line"):
            built.line.statistics()
