"""Platforms for SimGrid word for word, and what is read of its output; SimGrid itself is not needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from samples.simulation_samples import messages, one_to_two, star
from treadle.errors import InfeasibleError, ScheduleError
from treadle.simulation.simgrid import SimGridTime, _times, platform_xml


def test_a_platform_word_for_word() -> None:
    """Three ranks around node 3; rank 0's port is of 7 bytes/s; only ranks 0 and 2 have a message."""
    topology = replace(
        star(3),
        latencies_ns=np.arange(10, 16),
        injection_bytes_per_s=np.array([7, 0, 0, 0]),
        bandwidths=np.arange(100, 106),
    )
    program = messages(3, [(0, 2, 1, 0), (2, 0, 1, 1)], [(0, 5), (4, 1)], 2)

    def link(name: str, rate: int, latency: int, policy: str = "SHARED") -> str:
        return f'<link id="{name}" bandwidth="{rate}Bps" latency="{latency}ns" sharing_policy="{policy}"/>'

    def route(source: int, target: int, *names: str) -> str:
        crossed = "".join(f'<link_ctn id="{name}"/>' for name in names)
        return f'<route src="rank{source}" dst="rank{target}" symmetrical="NO">{crossed}</route>'

    ports = {int(node) for node in np.flatnonzero(topology.injection_bytes_per_s)}
    assert ports == {0}
    assert platform_xml(topology, program, alpha_ns=50).split("\n") == [
        "<?xml version='1.0'?>",
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">',
        '<platform version="4.1">',
        '<zone id="fabric" routing="Full">',
        '<host id="rank0" speed="1Gf"/>',
        '<host id="rank1" speed="1Gf"/>',
        '<host id="rank2" speed="1Gf"/>',
        *(link(f"link{at}", 100 + at, 10 + at) for at in range(6)),
        link("out0", 7, 0),
        link("into0", 7, 0),
        link("alpha", 16 * 105, 50, "FATPIPE"),
        link("control", 16 * 105, 0, "FATPIPE"),
        route(0, 0, "control"),
        route(0, 1, "control"),
        route(0, 2, "alpha", "out0", "link0", "link5"),
        route(1, 0, "control"),
        route(1, 1, "control"),
        route(1, 2, "control"),
        route(2, 0, "alpha", "link4", "link1", "into0"),
        route(2, 1, "control"),
        route(2, 2, "control"),
        "</zone>",
        "</platform>",
        "",
    ]


def test_what_simgrid_cannot_say_is_refused() -> None:
    wide = messages(3, [(0, 2, 1, 0), (0, 2, 1, 1)], [(0, 5), (0, 3, 2, 5)], 2)
    for program, words in (
        (
            wide,
            "SimGrid: messages from rank 0 to rank 2 take different paths, and SimGrid has one route for a "
            "pair of hosts",
        ),
        (
            one_to_two(),
            "SimGrid: a message from rank 0 to rank 2 has no path between the two; in-network copies and "
            "sums cannot be expressed",
        ),
        (
            messages(3, [(1, 2, 1, -1)], [], 1),
            "SimGrid: a message from rank 1 to rank 2 has no path between the two; in-network copies and "
            "sums cannot be expressed",
        ),
    ):
        with pytest.raises(InfeasibleError) as caught:
            platform_xml(star(3), program)
        assert str(caught.value) == words
    same = messages(3, [(0, 2, 1, 0), (0, 2, 1, 1)], [(0, 5), (0, 5)], 2)
    assert platform_xml(star(3), same).count("alpha") == 2


ROW = '{"size_bytes": 8, "times_s": [0.5, 0.25], "wrong": 3}'


def test_what_is_read_of_the_output() -> None:
    assert _times(f"hello\n{ROW}\n{ROW}\n", "[0.0] nothing", 2) == [SimGridTime(8, 0.25, 3)] * 2
    for out, log, words in (
        (ROW, "all\n  Deadlock found \n", "SimGrid: deadlock: some ranks wait for messages that never come"),
        (ROW, "deadlock\ntreadle: interpreter: bad\n", "SimGrid: treadle: interpreter: bad"),
        (ROW, "treadle: interpreter: bad", "SimGrid: treadle: interpreter: bad"),
        ("", "", "SimGrid: 0 of 1 sizes were simulated: no output"),
        ("hello\n", "first\nan Error\n", "SimGrid: 0 of 1 sizes were simulated: an Error"),
        ("hello\n", "first\n", "SimGrid: 0 of 1 sizes were simulated: first"),
        (f"{ROW}\n{ROW}", "", f"SimGrid: 2 of 1 sizes were simulated: {ROW}"),
        ("", "treadle: interpreter " + "x" * 400, "SimGrid: treadle: interpreter " + "x" * 279),
    ):
        with pytest.raises(ScheduleError) as caught:
            _times(out, log, 1)
        assert str(caught.value) == words
