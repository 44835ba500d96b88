"""What a testbed would do, command by command, with odd fabrics and a stand-in for processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from treadle.errors import MissingDependencyError, ScheduleError, TopologyError
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.runtime.mpi_build import MpiInstallation
from treadle.schedules.collective import CollectiveKind
from treadle.testbed import launch as launch_module
from treadle.testbed import layout as layout_module
from treadle.testbed import network as module
from treadle.testbed.launch import Timing, agent_script, meeting_s, mpi_command
from treadle.testbed.layout import (
    EmulatedLayout,
    SystemCommand,
    VethPair,
    burst_bytes,
    check_paths,
    link_rates,
    make_layout,
    routed,
    set_up_commands,
)
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder


def odd_fabric() -> Topology:
    """d to a both ways, a to b and b to c one way, c to a and d; of unlike rates, one twice."""
    builder = TopologyBuilder("odd")
    a, b, c, d = (builder.compute(name) for name in "abcd")
    for tail, head, rate in ((a, b, 6), (b, c, 4), (c, a, 10), (c, d, 4), (d, a, 5), (a, d, 7), (a, d, 2)):
        builder.link(tail, head, rate)
    return builder.build()


LAYOUT = make_layout(odd_fabric(), 30_000_001, prefix="p")


def test_rates_routes_and_cables() -> None:
    """The slowest, of 2, has the rate that was asked for; parallel links are one with the sum."""
    rates = link_rates(odd_fabric(), 30_000_001)
    slowest = 2
    assert rates == {
        (0, 1): 30_000_001 * 6 // slowest,
        (1, 2): 30_000_001 * 4 // slowest,
        (2, 0): 30_000_001 * 10 // slowest,
        (2, 3): 30_000_001 * 4 // slowest,
        (3, 0): 30_000_001 * 5 // slowest,
        (0, 3): 30_000_001 * 7 // slowest + 30_000_001,
    }
    assert LAYOUT.cables == (
        VethPair(0, 1, rates[0, 1], 0),
        VethPair(0, 3, rates[0, 3], rates[3, 0]),
        VethPair(1, 2, rates[1, 2], 0),
        VethPair(2, 0, rates[2, 0], 0),
        VethPair(2, 3, rates[2, 3], 0),
    )
    assert LAYOUT.next_hop == ((0, 1, 1, 3), (2, 1, 2, 2), (0, 0, 2, 3), (0, 0, 0, 3))
    assert (LAYOUT.namespaces, LAYOUT.delay_ns) == (("p-0", "p-1", "p-2", "p-3"), None)
    assert [LAYOUT.address(0), LAYOUT.address(3), LAYOUT.host_name(3)] == ["10.87.0.1", "10.87.0.4", "node3"]
    assert [routed(LAYOUT, *ends) for ends in ((3, 2), (1, 1), (1, 3))] == [[0, 1, 2], [], [2, 3]]
    assert LAYOUT.diameter == 3


def test_limits_of_what_is_emulated() -> None:
    assert (layout_module.MAX_NODES, layout_module.MAX_TOTAL_BYTES_PER_S) == (32, 625000000)
    assert len(link_rates(parse("ring(32)"), 1)) == 64
    with pytest.raises(TopologyError, match="33 nodes; the testbed takes 2 to 32"):
        link_rates(parse("ring(33)"), 1)
    lone = TopologyBuilder("lone")
    lone.compute("a")
    with pytest.raises(TopologyError, match="lone: 1 nodes; the testbed takes 2 to 32"):
        link_rates(lone.build(), 1)
    pair = parse("complete(2)")
    assert link_rates(pair, 312_500_000) == {(0, 1): 312_500_000, (1, 0): 312_500_000}
    with pytest.raises(TopologyError, match=r"would carry 5\.00 Gbit/s, at most 5 can be emulated"):
        link_rates(pair, 312_500_001)
    with pytest.raises(TopologyError, match=r"would carry 16\.00 Gbit/s, at most 5"):
        link_rates(pair, 10**9)
    capped = TopologyBuilder("capped")
    one, other = capped.compute("a", injection_bytes_per_s=3), capped.compute("b")
    capped.duplex(one, other, 5)
    with pytest.raises(TopologyError, match="capped: the testbed does not emulate injection caps"):
        link_rates(capped.build(), 10)
    assert [burst_bytes(rate) for rate in (0, 64_001_999, 64_002_000, 10**9)] == [32000, 32000, 32001, 500000]


SETTINGS = (
    "set -e",
    "cd /proc/sys/net",
    "if [ -e ipv6/conf/all/disable_ipv6 ]; then echo 1 > ipv6/conf/all/disable_ipv6; fi",
    "echo 1 > ipv4/ip_forward",
    "echo reno > ipv4/tcp_congestion_control",
    "for f in ipv4/conf/*/rp_filter; do echo 0 > $f; done",
)


def test_every_command_of_a_node() -> None:
    commands = set_up_commands(LAYOUT)
    assert len(commands) == 2 + 3 * 4
    assert [command.words for command in commands[:2]] == [("ip", "-batch", "-")] * 2
    assert commands[2 + 9] == SystemCommand(("ip", "netns", "exec", "p-3", "sh"), SETTINGS)
    assert commands[2 + 10] == SystemCommand(
        ("ip", "-n", "p-3", "-batch", "-"),
        (
            "link set lo up",
            "link add node type bridge",
            "addr add 10.87.0.4/24 dev node",
            "link set node up",
            "link set l1 up",
            "link set l4 up",
            "route add 10.87.0.1/32 via 10.87.0.1 dev l1 onlink src 10.87.0.4",
            "route add 10.87.0.2/32 via 10.87.0.1 dev l1 onlink src 10.87.0.4",
            "route add 10.87.0.3/32 via 10.87.0.1 dev l1 onlink src 10.87.0.4",
        ),
    )
    # 75000002 bytes a second back to a, half a millisecond of it; nothing leaves by the other
    assert commands[2 + 11] == SystemCommand(
        ("tc", "-n", "p-3", "-batch", "-"),
        ("qdisc add dev l1 root tbf rate 600000016bit burst 37500 limit 8388608",),
    )


def test_every_command_of_a_node_behind_a_delay_line() -> None:
    commands = set_up_commands(replace(LAYOUT, delay_ns=70))
    assert len(commands) == 2 + 2 * 4
    assert commands[1].words == ("treadle-delay-line",)
    assert commands[1].lines[1] == (
        f"l1 /run/netns/p-0 {30_000_001 * 7 // 2 + 30_000_001} 70 /run/netns/p-3 75000002 70"
    )
    assert commands[2].lines == (
        *SETTINGS,
        "echo 0 > ipv4/tcp_slow_start_after_idle",
        "echo 4096 16000000 32000000 > ipv4/tcp_rmem",
        "echo 4096 16000000 32000000 > ipv4/tcp_wmem",
    )
    assert commands[-1].lines[4:7] == (
        "link set l1 mtu 9000 txqueuelen 10000",
        "link set l4 mtu 9000 txqueuelen 10000",
        "link set l1 up",
    )


def sent(*path: tuple[int, int]) -> Program:
    """Rank 1 on node 3 sends to rank 0 on node 2 along these links, or on none that is known."""
    fabric = odd_fabric()
    ends = list(zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True))
    send = Operation(OperationKind.SEND, 0, 1, peer=0, path=0 if path else -1)
    return program_from_operations(
        CollectiveKind.BROADCAST,
        [[Operation(OperationKind.RECEIVE, 0, 1, peer=1)], [Operation(OperationKind.COPY, 0, 1), send]],
        n_chunks=1,
        shard_offset=[0, 0, 1],
        root=1,
        nodes=[2, 3],
        paths=[[ends.index(link) for link in path]],
    )


def test_messages_take_the_routes_of_packets() -> None:
    fabric = odd_fabric()
    check_paths(fabric, sent((3, 0), (0, 1), (1, 2)), LAYOUT)
    for path, count in (([(3, 0)], 1), ([], 0), ([(3, 0), (0, 1), (1, 2), (2, 0)], 4)):
        with pytest.raises(ScheduleError, match=f"a message from d to c takes {count} links"):
            check_paths(fabric, sent(*path), LAYOUT)


def test_what_mpi_is_told(tmp_path: Path) -> None:
    mpi = MpiInstallation.__new__(MpiInstallation)
    object.__setattr__(mpi, "mpirun", Path("/bin/mpirun"))
    words = mpi_command(LAYOUT, tmp_path / "agent", sent(), mpi)
    assert words == [
        *("/bin/mpirun", "-n", "2", "--host", "node2:1,node3:1"),
        *("--map-by", "node:oversubscribe", "--bind-to", "none"),
        *("--prtemca", "plm_ssh_agent", str(tmp_path / "agent"), "--prtemca", "plm_ssh_no_tree_spawn", "1"),
        *("--mca", "pml", "ob1", "--mca", "btl", "tcp,self"),
        *("--mca", "btl_tcp_if_include", "10.87.0.0/24", "--mca", "btl_tcp_eager_limit", "16000000"),
        *("--mca", "btl_tcp_max_send_size", "16000000", "--mca", "mpi_yield_when_idle", "1"),
    ]
    script = agent_script(LAYOUT, tmp_path)
    assert "  node3) space=p-3;;\n" in script
    assert f"TMPDIR={tmp_path}\n" in script


def test_a_program_is_run_by_the_agent_on_node_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, Any] = {}

    def run(command: Sequence[str], **more: Any) -> list[Any]:
        said.update(more, command=list(command))
        return []

    def arguments(path: Path, sizes: Sequence[int], **more: Any) -> list[str]:
        said["asked"] = (path, list(sizes), more)
        return ["-x"]

    monkeypatch.setattr(launch_module, "run_interpreter", run)
    monkeypatch.setattr(launch_module, "interpreter_arguments", arguments)
    monkeypatch.setattr(launch_module, "launch_environment", lambda: {"A": "b"})
    mpi = MpiInstallation.__new__(MpiInstallation)
    object.__setattr__(mpi, "mpirun", Path("/bin/mpirun"))
    timing = Timing(iterations=7, warmup=3, budget_s=1.5, limit_s=9.0)
    launch_module.run_program(
        sent(), [8, 4], layout=LAYOUT, folder=tmp_path, mpi=mpi, interpreter=Path("/i"), slice_bytes=64,
        timing=timing,
    )  # fmt: skip
    agent = tmp_path / "agent"
    assert said["command"][:2] == [str(agent), "node0"]
    assert said["command"][2].startswith("/bin/mpirun -n 2 --host node2:1,node3:1 ")
    assert said["command"][2].endswith(" /i -x")
    assert said["environment"] == {"A": "b", "TMPDIR": str(tmp_path)}
    assert (said["n_sizes"], said["limit_s"]) == (2, 9.0)
    assert said["asked"] == (
        tmp_path / "program.txt",
        [8, 4],
        {
            **{"iterations": 7, "warmup": 3, "budget_s": 1.5, "start_s": 0.0, "slice_bytes": 64},
            "piece_bytes": 0,
        },
    )
    assert agent.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "program.txt").read_text().startswith("treadle-program 2\ncollective broadcast\n")
    assert Timing() == Timing(200, 2, 2.0, 300.0, 1)


@pytest.mark.parametrize(("n", "hops", "seconds"), [(2, 1, 2 * 0.01), (4, 3, 9 * 0.01), (5, 2, 8 * 0.01)])
def test_the_meeting_waits_for_rounds_of_the_diameter(n: int, hops: int, seconds: float) -> None:
    chain = tuple(
        tuple(u if u == v else u + 1 if u + 1 < hops and v > u else v for v in range(n)) for u in range(n)
    )
    layout = EmulatedLayout(tuple("abcdefgh"[:n]), (), chain, 10_000_000)
    assert layout.diameter == hops
    assert meeting_s(layout) == pytest.approx(seconds + 5e-3)


class Host:
    """What processes would say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **says: str) -> None:
        self.calls: list[tuple[tuple[str, ...], str | None]] = []
        self.says = says
        self.killed: list[tuple[int, int]] = []
        monkeypatch.setattr(subprocess, "run", self.run)
        monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
        monkeypatch.setattr(os, "kill", lambda process, number: self.killed.append((process, number)))
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setattr(module, "_STOP_S", 0.0)

    def run(self, words: Sequence[str], **more: Any) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run`."""
        assert more["timeout"] == 60.0
        self.calls.append((tuple(words), more.get("input")))
        for said, text in self.says.items():
            if said in words and text.startswith("!"):
                return subprocess.CompletedProcess(words, 1, "", text[1:])
        return subprocess.CompletedProcess(words, 0, self.says.get(words[2], ""), "")


def test_requirements_are_tried_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, list="t-1 (id: 3)\n\n other\n", pids="31 32\n")
    monkeypatch.setattr(module, "new_prefix", lambda: "t-1")
    assert module.missing_requirement() is None
    trial = "qdisc add dev lo root tbf rate 1mbit burst 32000 limit 64000\n"
    pids = (("ip", "netns", "pids", "t-1"), None)
    assert host.calls == [
        (("ip", "netns", "add", "t-1"), None),
        (("tc", "-n", "t-1", "-batch", "-"), trial),
        (("ip", "netns", "list"), None),
        *[pids] * (len(host.calls) - 4),
        (("ip", "netns", "delete", "t-1"), None),
    ]
    assert len(host.calls) in (6, 8)
    assert host.killed == [
        (31, signal.SIGTERM),
        (32, signal.SIGTERM),
        (31, signal.SIGKILL),
        (32, signal.SIGKILL),
    ]
    module.require()


def test_what_a_command_says_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, add="!no\n  such thing\n")
    reason = (
        "the kernel lacks network namespaces or the tbf queueing discipline (ip netns add t-1: no such thing)"
    )
    monkeypatch.setattr(module, "new_prefix", lambda: "t-1")
    assert module.missing_requirement() == reason
    with pytest.raises(MissingDependencyError) as caught:
        module.require()
    assert str(caught.value) == f"the testbed cannot run here: {reason}"
    host.says = {"exec": "!"}
    with pytest.raises(ScheduleError, match="ip netns exec: exit status 1"):
        module._run(SystemCommand(("ip", "netns", "exec")))
    host.says = {"x": "!" + "z" * 300}
    with pytest.raises(ScheduleError, match=f"^x: {'z' * 200}$"):
        module._run(SystemCommand(("x",), ("a", "b")))
    assert host.calls[-1] == (("x",), "a\nb\n")

    def late(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("x", 60)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(ScheduleError, match="x: Command 'x' timed out after 60 seconds"):
        module._run(SystemCommand(("x",)))
    assert module._said(["x"]) == ""


def test_a_network_is_taken_down_whatever_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = Host(monkeypatch, list="p-3\np-1\n")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    with module.network(LAYOUT, "p") as found:
        assert (found.folder, found.line) == (tmp_path / "p", None)
        assert found.folder.stat().st_mode & 0o777 == 0o700
        wanted = [(command.words, "\n".join(command.lines) + "\n") for command in set_up_commands(LAYOUT)]
        assert host.calls == wanted
        host.calls.clear()
    assert not (tmp_path / "p").exists()
    deleted = [words for words, _ in host.calls if "delete" in words]
    assert deleted == [("ip", "netns", "delete", "p-1"), ("ip", "netns", "delete", "p-3")]
    with pytest.raises(KeyError), module.network(LAYOUT, "p"):
        raise KeyError
    assert not (tmp_path / "p").exists()


def test_only_what_has_lost_its_owner_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = module.new_prefix()
    assert own.startswith(f"treadle-{os.getpid()}-{module._start_of(os.getpid())}-")
    assert module._NAME.fullmatch(own)
    gone, reused = f"treadle-{2**22 + 7}-5-0123ab", f"treadle-{os.getpid()}-1-0123ab"
    names = [f"{own}-1", f"{gone}-4", f"{reused}-0", "treadle-x", "mine"]
    host = Host(monkeypatch, list="".join(f"{name} (id: 0)\n" for name in names))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    for name in (own, gone, "treadle-other", f"x{gone}"):
        (tmp_path / name).mkdir()
    assert module.remove_leftovers() == sorted([f"{reused}-0", f"{gone}-4", gone])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([own, "treadle-other", f"x{gone}"])
    assert [words[3] for words, _ in host.calls if "delete" in words] == [f"{gone}-4", f"{reused}-0"]
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert module._listed_namespaces() == []


@pytest.mark.parametrize(("state", "start"), [("S", "812"), ("Z", "0"), ("X", "0")])
def test_when_a_process_started(state: str, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field 22 of a line whose command may hold brackets and spaces; 0 for those that have ended."""
    fields = " ".join(str(900 + number) for number in range(4, 22))
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: f"7 (a) b c) {state} {fields} 812 999\n")
    assert module._start_of(7) == start
