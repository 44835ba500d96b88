"""Critical paths, traces, alpha-beta times, slices that suit a size."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from samples.program_cases import random_case as random_forest_case
from samples.simulation_samples import chain, relay
from shortcuts.simulated import simulate_program
from treadle.errors import ScheduleError
from treadle.program.any_schedule import lower
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.critical_path import critical_path, describe_path
from treadle.simulation.simulation_options import Forwarding, LatencyModel, Sharing, SimulationOptions
from treadle.simulation.trace import simulation_trace
from treadle.simulation.utilization_drawing import draw_utilization
from treadle.traces.chrome_json import chrome_json

NS = Fraction(1, 10**9)


def test_the_critical_path_of_a_relay() -> None:
    """Four slices over six links of 300 ns with stores: the first slice to the end, then those behind it."""
    options = SimulationOptions(slices=4, alpha_ns=50, forwarding=Forwarding.STORE_AND_FORWARD)
    result = simulate_program(chain(4), relay(4), 1200, options, with_binding=True)
    path = critical_path(result)
    assert path.total == (4 + 5) * 300 * NS + 3 * 50 * NS
    assert sum(path.resource_s.values()) == 9 * 300 * NS
    assert path.latency == 150 * NS
    assert sum(step.waited_for_resource for step in path.steps) == 3
    lines = describe_path(result, path, most=2)
    assert lines[-1] == f"{150 / 2850:6.1%}  latency"
    assert len(lines) == 5


@pytest.mark.parametrize("latency_model", LatencyModel)
def test_each_step_of_the_critical_path_starts_when_the_one_before_lets_it(latency_model) -> None:
    for seed in range(5):
        topology, collective, schedule = random_forest_case(seed, CollectiveKind.ALLREDUCE)
        program = lower(topology, collective, schedule)
        options = SimulationOptions(slices=2, alpha_ns=20, latency_model=latency_model)
        result = simulate_program(topology, program, 6000, options, with_binding=True)
        path = critical_path(result)
        assert path.steps[0].start == 0
        for one, other in zip(path.steps, path.steps[1:], strict=False):
            assert one.start <= other.start <= one.start + one.held + 20 * NS
        assert path.steps[-1].start + path.steps[-1].held == path.total
        assert 0 <= path.latency <= path.total


def test_without_a_record_there_is_no_critical_path() -> None:
    with pytest.raises(ScheduleError, match="with_binding"):
        critical_path(simulate_program(chain(2), relay(2), 100))


@pytest.mark.parametrize("sharing", Sharing)
def test_a_trace_has_every_message_in_its_lane(sharing: Sharing) -> None:
    options = SimulationOptions(slices=2, sharing=sharing)
    result = simulate_program(chain(3), relay(3), 1200, options)
    trace = json.loads(chrome_json(simulation_trace(result)))
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    on_links = [event for event in spans if event["pid"] == 1]
    assert len(on_links) == 4 * 2
    assert len(spans) == len(on_links) + 4 * 2
    for link in range(4):
        lane = sorted((e["ts"], e["dur"]) for e in on_links if e["tid"] == link)
        assert [duration for _, duration in lane] == pytest.approx([0.6, 0.6])
        assert lane[0][0] + 0.6 <= lane[1][0] + 1e-6
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert "0: a->sw0" in names
    assert "rank 2: c" in names
    assert trace["otherData"]["time_s"] == pytest.approx(1.8e-6)


def test_pictures() -> None:
    pytest.importorskip("matplotlib")
    result = simulate_program(chain(3), relay(3), 1200, SimulationOptions(slices=2))
    assert draw_utilization(result).startswith(b"\x89PNG")
    assert b"<svg" in draw_utilization(result, file_format="svg")
    with pytest.raises(ScheduleError, match="expected png, svg or pdf"):
        draw_utilization(result, file_format="bmp")
    nothing = simulate_program(chain(3), relay(3), 0)
    assert draw_utilization(nothing).startswith(b"\x89PNG")
