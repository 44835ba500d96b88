"""Real namespaces: they carry data at the rate that was asked for, and nothing of them stays behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from child_processes import finished, first_line, search_path, started, wait_until
from treadle.cli.main import main
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.runtime.mpi_build import build_interpreter, find_mpi
from treadle.testbed import network as module
from treadle.testbed.layout import make_layout, set_up_commands
from treadle.testbed.network import missing_requirement, network, new_prefix, remove_leftovers
from treadle.topologies import parse

HOLD = """
import sys, time
from treadle.testbed.layout import make_layout
from treadle.testbed.network import network, new_prefix
from treadle.topologies import parse
prefix = new_prefix()
with network(make_layout(parse("ring(4)"), 12_500_000, prefix=prefix), prefix):
    print(prefix, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _possible() -> Iterator[None]:
    reason = missing_requirement()
    if reason is not None:
        pytest.skip(f"testbed: {reason}")
    yield
    assert not owned_by(os.getpid())


def namespaces() -> list[str]:
    done = finished(["ip", "netns", "list"])
    assert done.returncode == 0, done.stderr
    return [line.split()[0] for line in done.stdout.splitlines() if line.strip()]


def owned_by(process: int) -> list[str]:
    """Namespaces and folders of one owner; other testbeds may run on this host."""
    folders = [path.name for path in Path(tempfile.gettempdir()).glob(f"treadle-{process}-*")]
    return [name for name in namespaces() if name.startswith(f"treadle-{process}-")] + folders


def test_a_ring_of_four_moves_data_at_its_rate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    try:
        build_interpreter(find_mpi())
    except MissingDependencyError as error:
        pytest.skip(f"MPI: {error}")
    arguments = ["testbed", "ring(4)", "--collectives", "allgather", "--algorithms", "bfb"]
    status = main([*arguments, "--size", "1K,512K", "--iterations", "4", "--json"])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    result = json.loads(captured.out)
    assert result["wrong"] == 0
    small, large = result["rows"]
    assert (small["steps"], small["t_b"]) == (2, 0.75)
    # 3/4 of 512 KB by two links of 12.5 MB/s each, less a burst of 32 kB: no emulation is faster than that
    assert large["time_s"] > (0.375 * 2**19 - 32_000) / 12.5e6
    sweep = tmp_path / "sweep.json"
    sweep.write_text(captured.out, encoding="utf-8")
    assert main(["calibrate", str(sweep), "--json"]) == 0
    fit = json.loads(capsys.readouterr().out)
    assert (fit["measurements"], fit["alpha_is"]) == (2, "a step")


def test_links_with_a_delay_and_where_schedules_overtake_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reason = missing_requirement(with_delay=True)
    if reason is not None:
        pytest.skip(f"testbed: {reason}")
    try:
        build_interpreter(find_mpi())
    except MissingDependencyError as error:
        pytest.skip(f"MPI: {error}")
    algorithms = ["bfb", "mixed-radix", "one-diameter"]
    words = ["testbed", "complete(4)", "--collectives", "allreduce", "--algorithms", ",".join(algorithms)]
    words += ["--size", "4K,512K", "--iterations", "2", "--rounds", "2", "--crossovers", "--json"]
    status = main([*words, "--rate", "20Mbit/s", "--delay", "20ms"])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    result = json.loads(captured.out)
    assert (result["wrong"], result["delay_ns"], result["frames_dropped"]) == (0, 20_000_000, 0)
    assert {row["runs"] for row in result["rows"]} == {4}
    for row in result["rows"]:  # no emulation is faster than the delays and the bytes of a link
        link_bytes = row["t_b"] * row["size_bytes"] / 3
        assert row["time_s"] > 0.02 * (1 if row["algorithm"] == "one-diameter" else 2) + link_bytes / 2.5e6
    for one in result["crossovers"]:
        assert {one["small"], one["large"], *one["fitted_to"]} == set(algorithms)
        if one["ratio"] is not None:
            assert one["ratio"] == pytest.approx(one["predicted_bytes"] / one["measured_bytes"])


@contextlib.contextmanager
def held() -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """A process that holds a network of four, and the network's prefix."""
    command = [sys.executable, "-c", HOLD]
    with started(command, env={**os.environ, "PYTHONPATH": search_path()}) as process:
        yield process, first_line(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_take_the_network_down(number: signal.Signals) -> None:
    with held() as (process, _):
        assert len(owned_by(process.pid)) == 5
        process.send_signal(number)
        process.communicate(timeout=30)
        assert process.returncode != 0
        assert owned_by(process.pid) == []


def test_what_a_killed_owner_leaves_is_removed_and_what_lives_stays() -> None:
    with (
        held() as (dead, prefix),
        held() as (living, _),
        started(["ip", "netns", "exec", f"{prefix}-0", "sleep", "60"]) as inside,
    ):
        comm = Path(f"/proc/{inside.pid}/comm")
        wait_until(lambda: comm.read_text(encoding="ascii").strip() == "sleep", what="a sleep within")
        dead.kill()
        dead.communicate(timeout=30)
        assert len(owned_by(dead.pid)) == 5
        removed = remove_leftovers()
        assert f"{prefix}-0" in removed
        assert owned_by(dead.pid) == []
        assert inside.wait(10) == -signal.SIGTERM
        assert len(owned_by(living.pid)) == 5
        living.terminate()
        living.communicate(timeout=30)
        assert owned_by(living.pid) == []


def test_a_command_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = new_prefix()
    layout = make_layout(parse("ring(3)"), 10, prefix=prefix)
    commands = [*set_up_commands(layout), module.SystemCommand(("false",))]
    monkeypatch.setattr(module, "set_up_commands", lambda _: commands)
    with pytest.raises(ScheduleError, match="false"), network(layout, prefix):
        raise AssertionError
    assert owned_by(os.getpid()) == []


def test_a_dry_run_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["testbed", "ring(3)", "--dry-run"]) == 0
    assert "netns add treadle-PID-START-ID-0" in capsys.readouterr().out


def test_clean_says_what_it_removed(capsys: pytest.CaptureFixture[str]) -> None:
    with held() as (dead, name):
        dead.kill()
        dead.communicate(timeout=30)
    assert main(["testbed", "--clean"]) == 0
    assert f"removed {name}-0" in capsys.readouterr().out
