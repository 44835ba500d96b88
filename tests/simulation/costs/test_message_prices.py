"""Simulated times under cost models: closed forms, and random programs by a slow simulator of messages."""

from __future__ import annotations

from fractions import Fraction

import pytest

from reference.costs.priced_messages import priced_time
from samples.program_cases import random_case
from samples.simulation_samples import RATE, messages, star
from shortcuts.simulated import simulate_program
from treadle import planning
from treadle.errors import ScheduleError
from treadle.program.any_schedule import lower
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.costs.cost_model import ClassCost, CostModel, LinkClass, Protocol
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.simulation.costs.message_prices import protocol_options
from treadle.simulation.critical_path import critical_path
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulated_sizes import simulate_sizes
from treadle.simulation.simulation_options import LatencyModel, Sharing, SimulationOptions
from treadle.simulation.tasks import task_graph
from treadle.simulation.utilization_drawing import utilisation_over_time
from treadle.topologies.topology import Topology, TopologyBuilder

NS = Fraction(1, 10**9)
BOX = ClassCost(alpha_ns=700, occupancy_ns=40, hop_ns=3, efficiency=Fraction(4, 5))
NETWORK = ClassCost(alpha_ns=5000, occupancy_ns=200, hop_ns=11, efficiency=Fraction(9, 10))
HOP = ClassCost(alpha_ns=900, occupancy_ns=60, hop_ns=500, efficiency=Fraction(19, 20))
PRICED = Protocol("simple", BOX, NETWORK, HOP, launch_ns=6000)


def two_boxes(*, cap: int = 0) -> Topology:
    """Two ranks a box on a switch of their own, and a card each to one network switch."""
    builder = TopologyBuilder("two boxes")
    for box in "ab":
        for rank in (0, 1):
            builder.compute(f"{box}.{rank}", injection_bytes_per_s=cap)
    for switch in ("a.nvs", "b.nvs", "net"):
        builder.switch(switch)
    for box in "ab":
        for rank in (0, 1):
            builder.duplex(f"{box}.{rank}", f"{box}.nvs", 10 * RATE)
            builder.duplex(f"{box}.{rank}", "net", RATE)
    return builder.build()


def time_ns(topology: Topology, program, size: int, protocol: Protocol = PRICED, **options) -> Fraction:
    result = simulate_program(topology, program, size, SimulationOptions(costs=protocol, **options))
    assert result.is_exact
    return result.time / NS


def link(topology: Topology, tail: str, head: str) -> int:
    return [topology.link_name(one) for one in range(topology.n_links)].index(f"{tail}->{head}")


def test_a_message_pays_for_the_dearest_class_of_its_links() -> None:
    topology = two_boxes()
    inside = [link(topology, "a.0", "a.nvs"), link(topology, "a.nvs", "a.1")]
    across = [link(topology, "a.0", "net"), link(topology, "net", "b.0")]
    program = messages(4, [(0, 1, 1, 0)], [inside], 1)
    # 8 GB/s are left of 10: 1000 bytes take 125 ns
    assert time_ns(topology, program, 1000) == 6000 + 40 + 125 + 2 * 3 + 700
    program = messages(4, [(0, 2, 1, 0)], [across], 1)
    assert time_ns(topology, program, 900) == 6000 + 200 + 1000 + 2 * 11 + 5000


def test_messages_queue_for_the_occupancy_but_not_for_alpha() -> None:
    """Three messages out of one port: each holds it for g and its bytes; alpha is waited for once."""
    topology = two_boxes()
    way = [link(topology, "a.0", "net"), link(topology, "net", "b.0")]
    program = messages(4, [(0, 2, 1, 0), (0, 2, 1, 0), (0, 2, 1, 0)], [way], 3)
    assert time_ns(topology, program, 2700) == 6000 + 3 * (200 + 1000) + 22 + 5000
    # four slices are twelve messages
    assert time_ns(topology, program, 2700, slices=4) == 6000 + 12 * 200 + 3000 + 22 + 5000
    held = time_ns(topology, program, 2700, latency_model=LatencyModel.PER_MESSAGE)
    # the second link begins its last message when that runs through the first, and holds it for its latency
    assert held == 6000 + 3 * (200 + 5000 + 11 + 1000) + 11


def test_all_channels_are_a_ceiling_for_what_leaves_a_rank() -> None:
    topology = two_boxes()
    way = [link(topology, "a.0", "a.nvs"), link(topology, "a.nvs", "a.1")]
    program = messages(4, [(0, 1, 1, 0)], [way], 1)
    narrow = Protocol("ll", launch_ns=0, channels=4, channel_bytes_per_s=RATE // 8)
    assert time_ns(topology, program, 1000, narrow) == 2000
    assert time_ns(topology, program, 1000, Protocol("ll", channels=200, channel_bytes_per_s=RATE)) == 100


def test_a_host_port_has_the_efficiency_of_its_links() -> None:
    topology = two_boxes(cap=RATE // 2)
    way = [link(topology, "a.0", "net"), link(topology, "net", "b.0")]
    program = messages(4, [(0, 2, 1, 0)], [way], 1)
    # 0.45 GB/s are left of the host's 0.5: 2000 ns out; the links wait to pass at full rate, 1000 ns more in
    assert time_ns(topology, program, 900) == 6000 + 200 + 2000 + 22 + 1000 + 5000


@pytest.mark.parametrize("sharing", Sharing)
def test_one_message_takes_as_long_however_links_are_shared(sharing: Sharing) -> None:
    topology = two_boxes()
    way = [link(topology, "a.0", "net"), link(topology, "net", "b.0")]
    program = messages(4, [(0, 2, 1, 0)], [way], 1)
    result = simulate_program(topology, program, 900, SimulationOptions(costs=PRICED, sharing=sharing))
    assert result.time_s == pytest.approx(12_222e-9, rel=1e-9)
    assert utilisation_over_time(result, 4).max() <= 1 + 1e-9


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.REDUCE])
def test_agrees_with_a_slow_simulator_of_messages(kind: CollectiveKind) -> None:
    for seed in range(6):
        topology, collective, schedule = random_case(seed, kind)
        program = lower(topology, collective, schedule)
        costs = {
            one: PRICED.of(CLASSES[number]) for one, number in enumerate(link_classes(topology).tolist())
        }
        found = simulate_program(
            topology, program, 5000, SimulationOptions(costs=PRICED, sharing=Sharing.FIFO)
        )
        expected = priced_time(topology, program, 5000, PRICED, costs)
        assert found.time == expected if found.is_exact else found.time_s == pytest.approx(float(expected))


def test_agrees_on_boxes_with_ceilings() -> None:
    ceiling = Protocol("ll128", BOX, NETWORK, HOP, 100, channels=2, channel_bytes_per_s=3 * 10**9)
    for fabric, kind in (("dgx_a100_flat(2, 4)", "allreduce"), ("mi250(2, 8)", "allgather")):
        plan = planning.solve(fabric, kind).plan
        inside = {
            one: name.partition("->")[0].partition(".")[0] == name.partition("->")[2].partition(".")[0]
            for one in range(plan.topology.n_links)
            for name in [plan.topology.link_name(one)]
        }
        costs = {one: BOX if is_inside else NETWORK for one, is_inside in inside.items()}
        program = lower(plan.topology, plan.collective, plan.entries[-1].schedule)
        options = SimulationOptions(costs=ceiling, sharing=Sharing.FIFO)
        found = simulate_program(plan.topology, program, 2**20, options)
        expected = priced_time(plan.topology, program, 2**20, ceiling, costs)
        assert float(found.time) == pytest.approx(float(expected), rel=1e-9)


def test_the_launch_is_before_all_and_no_time_of_links() -> None:
    topology = two_boxes()
    way = [link(topology, "a.0", "net"), link(topology, "net", "b.0")]
    program = messages(4, [(0, 2, 1, 0)], [way], 1)
    late = Protocol("late", launch_ns=9000)
    result = simulate_graph(
        task_graph(topology, program), 1000, SimulationOptions(costs=late), with_binding=True
    )
    assert result.time == 10_000 * NS
    assert result.utilisation.max() == 1
    assert critical_path(result).latency == 9000 * NS
    empty = simulate_program(topology, program, 0, SimulationOptions(costs=late))
    assert (empty.time, empty.algbw_bytes_per_s) == (9000 * NS, 0)


def test_each_size_takes_the_fastest_protocol() -> None:
    """A quick and narrow one below the crossing of the two lines, a slow and wide one above."""
    quick = Protocol("quick", network=ClassCost(alpha_ns=1000, efficiency=Fraction(1, 4)))
    wide = Protocol("wide", network=ClassCost(alpha_ns=4000))
    model = CostModel("two", "made up", (quick, wide), reduction_bytes_per_s=RATE)
    topology = two_boxes()
    way = [link(topology, "a.0", "net"), link(topology, "net", "b.0")]
    graph = task_graph(topology, messages(4, [(0, 2, 1, 0)], [way], 1))
    found = list(simulate_sizes(graph, [900, 1100], SimulationOptions(), cost_model=model))
    chosen = [one.simulation.options.costs for one in found]
    assert chosen == [quick, wide]
    # the reduction's bytes come on top
    assert [one.simulation.time / NS for one in found] == [1000 + 3600 + 900, 4000 + 1100 + 1100]


def test_a_cost_model_and_alpha_exclude_each_other() -> None:
    model = planning.cost_presets()["reference"]
    with pytest.raises(ScheduleError, match="alpha is for times without one"):
        protocol_options(SimulationOptions(alpha_ns=5), model)
    with pytest.raises(ScheduleError, match="beside costs of simple, expected one"):
        SimulationOptions(alpha_ns=5, costs=PRICED)


def test_reference_times_by_hand() -> None:
    """A ring's allgather on direct links: N - 1 steps of g, bytes, a hop and alpha."""
    plan = planning.solve(
        'ring(4, bidirectional=False, bandwidth="50GB/s")', "allgather", algorithm="ring"
    ).plan
    run = planning.simulate(plan, [4 * 50_000], cost_model="reference", auto_slices=False)
    assert run.rows[0].time == 3 * (50 + 1000 + 500 + 1000) * NS
    assert run.rows[0].protocol == "simple"
    assert run.rows[0].alpha_beta == run.rows[0].time


def test_classes_of_a_star_without_names_are_the_network() -> None:
    topology = star(3)
    assert {CLASSES[one] for one in link_classes(topology).tolist()} == {LinkClass.NETWORK}
