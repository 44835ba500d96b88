"""Numbers of options and of costs at their limits, and one beyond each, with the words of the refusal."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.schedules.plan import MAX_SLICES
from treadle.simulation.cost_models import cost_model_of
from treadle.simulation.costs.cost_model import ClassCost, CostModel, LinkClass, Protocol
from treadle.simulation.costs.cost_model_file import cost_model_to_json, parse_cost_model
from treadle.simulation.costs.cost_presets import cost_presets, default_cost_model, reference_hop_ns
from treadle.simulation.costs.message_prices import protocol_options
from treadle.simulation.simulation_options import Forwarding, LatencyModel, Sharing, SimulationOptions
from treadle.topologies import parse

TEN_12 = 10**12


@pytest.mark.parametrize(
    ("name", "least", "most", "words"),
    [
        ("slices", 1, MAX_SLICES, "simulation: {} slices, expected 1 to 1048576"),
        ("alpha_ns", 0, TEN_12, "simulation: alpha {} ns, expected 0 to 1000000000000"),
        ("reduction_bytes_per_s", 0, 2**63 - 1, "simulation: sums at {} bytes/s, expected 0 to 2**63 - 1"),
        (
            "least_slice_bytes",
            1,
            2**63 - 1,
            "simulation: slices of at least {} bytes, expected 1 to 2**63 - 1",
        ),
    ],
)
def test_options_take_what_is_in_their_range_and_no_more(
    name: str, least: int, most: int, words: str
) -> None:
    for value in (least, most):
        assert getattr(SimulationOptions(**{name: value}), name) == value  # type: ignore[arg-type]
    for value in (least - 1, most + 1):
        with pytest.raises(ScheduleError) as caught:
            SimulationOptions(**{name: value})  # type: ignore[arg-type]
        assert str(caught.value) == words.format(value)


def test_what_options_say_by_themselves() -> None:
    options = SimulationOptions()
    assert (options.slices, options.alpha_ns, options.reduction_bytes_per_s) == (1, 0, 0)
    assert (options.least_slice_bytes, options.costs) == (4096, None)
    assert options.latency_model is LatencyModel.PIPELINED
    assert options.forwarding is Forwarding.CUT_THROUGH
    assert options.sharing is Sharing.SLICE_ORDER


def test_alpha_is_beside_no_costs() -> None:
    assert SimulationOptions(costs=Protocol("p")).costs == Protocol("p")
    with pytest.raises(ScheduleError) as caught:
        SimulationOptions(alpha_ns=3, costs=Protocol("p"))
    assert str(caught.value) == "simulation: alpha 3 ns beside costs of p, expected one"


@pytest.mark.parametrize("name", ["alpha_ns", "occupancy_ns", "hop_ns"])
def test_costs_of_a_class_have_ranges(name: str) -> None:
    for value in (0, TEN_12):
        assert getattr(ClassCost(**{name: value}), name) == value  # type: ignore[arg-type]
    for value in (-1, TEN_12 + 1):
        with pytest.raises(ScheduleError) as caught:
            ClassCost(**{name: value})  # type: ignore[arg-type]
        assert str(caught.value) == f"{name} {value}, expected 0 to 1000000000000"


def test_an_efficiency_is_a_share_in_parts_of_a_million() -> None:
    for share in (Fraction(1, 10**6), Fraction(999_999, 10**6), Fraction(1)):
        assert ClassCost(efficiency=share).efficiency == share
    for share in (Fraction(0), Fraction(-1, 2), Fraction(1_000_001, 10**6), Fraction(1, 10**6 + 1)):
        with pytest.raises(ScheduleError) as caught:
            ClassCost(efficiency=share)
        assert str(caught.value) == (
            f"efficiency {share}, expected more than 0, at most 1, with a denominator of at most 1000000"
        )


def test_protocols_have_ranges() -> None:
    for name in ("x", "x" * 40):
        assert Protocol(name).name == name
    for launch_ns in (0, TEN_12):
        assert Protocol("p", launch_ns=launch_ns).launch_ns == launch_ns
    widest = Protocol("p", channels=4096, channel_bytes_per_s=2**50)
    assert widest.ceiling_bytes_per_s == 2**62
    assert Protocol("p", channels=1, channel_bytes_per_s=1).ceiling_bytes_per_s == 1
    assert Protocol("p").ceiling_bytes_per_s == 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": ""}, "protocol '': expected a name of 1 to 40 characters"),
        ({"name": "x" * 41}, f"protocol {'x' * 40!r}: expected a name of 1 to 40 characters"),
        ({"name": "a\nb"}, "protocol 'a\\nb': expected a name of 1 to 40 characters"),
        ({"launch_ns": -1}, "protocol p: launch_ns -1, expected 0 to 1000000000000"),
        (
            {"launch_ns": TEN_12 + 1},
            "protocol p: launch_ns 1000000000001, expected 0 to 1000000000000",
        ),
        (
            {"channels": 4097, "channel_bytes_per_s": 5},
            "protocol p: 4097 channels of 5 bytes/s, expected at most 4096 of 1125899906842624",
        ),
        (
            {"channels": 5, "channel_bytes_per_s": 2**50 + 1},
            "protocol p: 5 channels of 1125899906842625 bytes/s, expected at most 4096 of 1125899906842624",
        ),
        (
            {"channels": -1, "channel_bytes_per_s": 5},
            "protocol p: -1 channels of 5 bytes/s, expected at most 4096 of 1125899906842624",
        ),
        (
            {"channels": 5, "channel_bytes_per_s": -1},
            "protocol p: 5 channels of -1 bytes/s, expected at most 4096 of 1125899906842624",
        ),
        ({"channels": 3}, "protocol p: channels and channel_bytes_per_s go together, found 3 and 0"),
        (
            {"channel_bytes_per_s": 3},
            "protocol p: channels and channel_bytes_per_s go together, found 0 and 3",
        ),
    ],
)
def test_protocols_out_of_range_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        Protocol(**{"name": "p", **values})  # type: ignore[arg-type]
    assert str(caught.value) == words


def test_a_protocol_has_a_cost_for_each_class() -> None:
    box, network, hop = ClassCost(1), ClassCost(2), ClassCost(3)
    protocol = Protocol("p", box, network, hop)
    assert [protocol.of(one) for one in (LinkClass.BOX, LinkClass.NETWORK, LinkClass.HOP)] == [
        box,
        network,
        hop,
    ]


def protocols(count: int) -> tuple[Protocol, ...]:
    return tuple(Protocol(f"p{number}") for number in range(count))


def test_models_have_ranges() -> None:
    model = CostModel("n" * 100, "s" * 2000, protocols(16), reduction_bytes_per_s=2**50)
    assert (len(model.name), len(model.source), len(model.protocols)) == (100, 2000, 16)
    assert CostModel("n", "s", protocols(1)).reduction_bytes_per_s == 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": ""}, "cost model: name '', expected a line of 1 to 100"),
        ({"name": "n" * 101}, f"cost model: name {'n' * 40!r}, expected a line of 1 to 100"),
        ({"source": ""}, "cost model: source '', expected a line of 1 to 2000"),
        ({"source": "s" * 2001}, f"cost model: source {'s' * 40!r}, expected a line of 1 to 2000"),
        ({"protocols": ()}, "cost model m: protocols none; expected 1 to 16 of different names"),
        (
            {"protocols": protocols(17)},
            "cost model m: protocols p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, "
            "p16; expected 1 to 16 of different names",
        ),
        (
            {"protocols": (Protocol("a"), Protocol("a"))},
            "cost model m: protocols a, a; expected 1 to 16 of different names",
        ),
        (
            {"reduction_bytes_per_s": -1},
            "cost model m: sums at -1 bytes/s, expected 0 to 1125899906842624",
        ),
        (
            {"reduction_bytes_per_s": 2**50 + 1},
            "cost model m: sums at 1125899906842625 bytes/s, expected 0 to 1125899906842624",
        ),
    ],
)
def test_models_out_of_range_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        CostModel(**{"name": "m", "source": "s", "protocols": protocols(2), **values})  # type: ignore[arg-type]
    assert str(caught.value) == words


def test_models_that_differ_in_their_intervals_are_of_one_hash_and_not_equal() -> None:
    one, other = (CostModel("m", "s", protocols(1), bands={"x": (0, end)}) for end in (1, 2))
    assert hash(one) == hash(other)
    assert one != other
    different = (
        CostModel("n", "s", protocols(1)),
        CostModel("m", "t", protocols(1)),
        CostModel("m", "s", protocols(2)),
        CostModel("m", "s", protocols(1), 5),
    )
    assert len({hash(one), *map(hash, different)}) == 5


FILE = """{"treadle": "cost-model", "version": 1, "name": "n", "source": "s", "reduction_bytes_per_s": 7,
"bands": {"p.box.alpha_ns": [1, 2.5], "p.box.hop_ns": [3, 3]},
"protocols": [{"name": "p", "launch_ns": 1, "channels": 2, "channel_bytes_per_s": 3,
"box": {"alpha_ns": 4, "occupancy_ns": 5, "hop_ns": 6, "efficiency": "2/3"},
"hop": {"efficiency": 0.25}, "network": {"alpha_ns": 8}}, {"name": "q"}]}"""


def test_every_figure_of_a_file_has_its_place() -> None:
    model = parse_cost_model(FILE)
    assert model == CostModel(
        "n",
        "s",
        (
            Protocol(
                "p",
                ClassCost(4, 5, 6, Fraction(2, 3)),
                ClassCost(8),
                ClassCost(efficiency=Fraction(1, 4)),
                1,
                2,
                3,
            ),
            Protocol("q"),
        ),
        7,
        {"p.box.alpha_ns": (1.0, 2.5), "p.box.hop_ns": (3.0, 3.0)},
    )
    nothing = {"alpha_ns": 0, "occupancy_ns": 0, "hop_ns": 0, "efficiency": "1"}
    assert cost_model_to_json(model) == {
        "treadle": "cost-model",
        "version": 1,
        "name": "n",
        "source": "s",
        "protocols": [
            {
                "name": "p",
                "launch_ns": 1,
                "channels": 2,
                "channel_bytes_per_s": 3,
                "box": {"alpha_ns": 4, "occupancy_ns": 5, "hop_ns": 6, "efficiency": "2/3"},
                "hop": {**nothing, "efficiency": "1/4"},
                "network": {**nothing, "alpha_ns": 8},
            },
            {"name": "q", "launch_ns": 0, "box": nothing, "hop": nothing, "network": nothing},
        ],
        "reduction_bytes_per_s": 7,
        "bands": {"p.box.alpha_ns": [1.0, 2.5], "p.box.hop_ns": [3.0, 3.0]},
    }
    bare = cost_model_to_json(CostModel("n", "s", (Protocol("p"),)))
    assert list(bare) == ["treadle", "version", "name", "source", "protocols"]


SHARE = 'protocols[0].hop.efficiency: expected a share such as "23/25" or 0.92, found '
KEYS = "known are box, channel_bytes_per_s, channels, hop, launch_ns, name, network"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"cost-model"', '"design"', 'treadle: expected "cost-model", found "design"'),
        ('"version": 1', '"version": "1"', 'version: expected an integer, found "1"'),
        ("[1, 2.5]", "[1, NaN]", None),
        ("[1, 2.5]", "[3, 2.5]", 'bands: "p.box.alpha_ns": expected two numbers, the smaller first'),
        ("[1, 2.5]", "[1, 2, 3]", 'bands["p.box.alpha_ns"]: expected a list of length 2, found 3'),
        ("[1, 2.5]", "[true, 2]", 'bands["p.box.alpha_ns"][0]: expected a number, found true'),
        ("[1, 2.5]", "5", 'bands["p.box.alpha_ns"]: expected a list, found 5'),
        ('"hop_ns": 6', '"hop_ns": 6.0', 'protocols[0].box.hop_ns: expected an integer, found 6.0'),
        ('"channels": 2', '"channels": "2"', 'protocols[0].channels: expected an integer, found "2"'),
        ('{"name": "q"}', '{"name": 2}', 'protocols[1].name: expected a string, found 2'),
        ('{"name": "q"}', '{"launch_ns": 2}', "protocols[1]: key 'name' is missing"),
        (
            '{"name": "q"}',
            '{"name": "q", "x": 2}',
            f'protocols[1]: unknown key "x"; {KEYS}',
        ),
        (
            '"network": {"alpha_ns": 8}',
            '"network": {"beta": 8}',
            'protocols[0].network: unknown key "beta"; known are alpha_ns, efficiency, hop_ns, occupancy_ns',
        ),
        ('{"alpha_ns": 8}', "[8]", 'protocols[0].network: expected an object, found a list'),
        ('{"alpha_ns": 8}', '{"alpha_ns": -8}', f"protocols[0].network: alpha_ns -8, expected 0 to {TEN_12}"),
        ('"q"', '"p"', "cost model n: protocols p, p; expected 1 to 16 of different names"),
        (
            '"q"',
            f'"{"q" * 41}"',
            f"protocols[1]: protocol {'q' * 40!r}: expected a name of 1 to 40 characters",
        ),
        (
            "0.25",
            '"1/3333333"',
            "protocols[0].hop: efficiency 1/3333333, expected more than 0, at most 1, with a denominator of "
            "at most 1000000",
        ),
        ("0.25", '""', 'protocols[0].hop.efficiency: expected a share such as "23/25" or 0.92, found ""'),
        ("0.25", "1e-1", None),
        ("0.25", '"1E-1"', f'{SHARE}"1E-1"'),
        (
            "0.25",
            f'"0.{"3" * 39}"',
            f'{SHARE}"0.{"3" * 39}"',
        ),
        (
            "0.25",
            f'"{"9" * 70}"',
            f'{SHARE}"{"9" * 59}...',
        ),
        (
            "0.25",
            f'"{"9" * 58}"',
            f'{SHARE}"{"9" * 58}"',
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_with_its_place(before: str, after: str, words: str | None) -> None:
    assert FILE.count(before) >= 1
    text = FILE.replace(before, after, 1)
    if words is None and "NaN" not in after:
        assert parse_cost_model(text).protocols[0].hop.efficiency == Fraction(1, 10)
        return
    with pytest.raises(FormatError) as caught:
        parse_cost_model(text, source="here.json")
    if words is not None:
        assert str(caught.value) == f"here.json: {words}"


def test_a_share_of_forty_characters_is_read() -> None:
    share = "0.5" + "0" * 37
    assert len(share) == 40
    text = FILE.replace("0.25", f'"{share}"')
    assert parse_cost_model(text).protocols[0].hop.efficiency == Fraction(1, 2)


def test_a_thousand_intervals_are_read() -> None:
    def file(count: int) -> str:
        intervals = ", ".join(f'"{number}": [0, 1]' for number in range(count))
        head, tail = FILE.split('"bands": {')
        return head + '"bands": {' + intervals + "}" + tail.partition("}")[2]

    assert len(parse_cost_model(file(1000)).bands) == 1000
    with pytest.raises(FormatError, match="bands: expected an object of at most 1000 intervals"):
        parse_cost_model(file(1001))


def test_figures_of_what_comes_with_treadle() -> None:
    def figures(cost: ClassCost) -> tuple[int, int, int, Fraction]:
        return cost.alpha_ns, cost.occupancy_ns, cost.hop_ns, cost.efficiency

    one = Fraction(1)
    found = {
        (name, protocol.name): (
            *(figures(cost) for cost in (protocol.box, protocol.network, protocol.hop)),
            (protocol.launch_ns, protocol.channels, protocol.channel_bytes_per_s),
        )
        for name, model in cost_presets().items()
        for protocol in model.protocols
        if not name.startswith(("nccl-", "kernels-")) or name == "nccl-hopper"
    }
    none, every = (0, 0, 0, one), (10_000, 0, 0, one)
    box, network = (1000, 50, 0, one), (5000, 200, 0, one)
    fitted = (13_330, 0, 0, Fraction(79, 100))
    ib = (34_426, 2604, 0, Fraction(8593, 10_000))
    assert found == {
        ("reference", "simple"): (box, network, (1000, 50, 500, one), (0, 0, 0)),
        ("reference-hosts", "simple"): (box, network, (5000, 200, 1000, one), (0, 0, 0)),
        ("link-latencies", "simple"): (none, none, none, (0, 0, 0)),
        ("dissertation", "simple"): (every, every, every, (0, 0, 0)),
        ("optical-testbed", "simple"): (fitted, fitted, fitted, (21_600, 0, 0)),
        ("preprint-a100", "simple"): ((5885, 4460, 0, Fraction(7499, 10_000)), ib, ib, (20_131, 0, 0)),
        ("nccl-hopper", "ll"): (
            (600, 0, 0, Fraction(2, 5)), *((2700, 1000, 0, Fraction(9, 20)),) * 2, (6600, 1, 141 * 10**9),
        ),
        ("nccl-hopper", "ll128"): (
            (1900, 0, 0, Fraction(92, 125)),
            *((4000, 1000, 0, Fraction(207, 250)),) * 2,
            (14_000, 12, 36_700_000_000),
        ),
        ("nccl-hopper", "simple"): (
            (3400, 0, 0, Fraction(4, 5)), *((14_000, 3000, 0, Fraction(9, 10)),) * 2, (8400, 0, 0),
        ),
    }  # fmt: skip
    ceilings = {
        name: [one.ceiling_bytes_per_s for one in model.protocols]
        for name, model in cost_presets().items()
        if name.startswith("nccl-")
    }
    giga = 10**9
    assert ceilings == {
        "nccl-volta": [39 * giga, 120 * giga, 0],
        "nccl-ampere": [87_700_000_000, 240 * giga, 0],
        "nccl-hopper": [141 * giga, 12 * 36_700_000_000, 0],
        "nccl-blackwell": [282 * giga, 640 * giga, 0],
        "nccl-volta-boxes": [39 * giga, 160 * giga, 0],
        "nccl-ampere-boxes": [22_500_000_000, 160 * giga, 0],
        "nccl-hopper-boxes": [39 * giga, 8 * 36_700_000_000, 0],
        "nccl-blackwell-boxes": [39 * giga, 320 * giga, 0],
    }
    hopper = cost_presets()["nccl-hopper"]
    assert cost_model_of(parse("dgx_h100:2"), "nccl-hopper").name == "nccl-hopper-boxes"
    assert cost_model_of(parse("dgx_h100:1"), hopper) is hopper
    own = replace(hopper, source="mine")
    assert cost_model_of(parse("dgx_h100:2"), own) is own
    assert {name for name, one in cost_presets().items() if one.reduction_bytes_per_s} == {"preprint-a100"}
    assert cost_presets()["preprint-a100"].reduction_bytes_per_s == 266_546_061_763
    assert reference_hop_ns() == 1000 + 50 + 500


def test_one_latency_on_a_fabric_is_enough_for_latencies_alone() -> None:
    assert default_cost_model(parse("ring(4)")).name == "reference"
    assert default_cost_model(parse("ring(4, latency='1ns')")).name == "link-latencies"


def test_options_by_protocol() -> None:
    plain = SimulationOptions(slices=3, reduction_bytes_per_s=5)
    assert protocol_options(plain, None) == (plain,)
    one, other = Protocol("one"), Protocol("other", launch_ns=4)
    model = CostModel("m", "s", (one, other), reduction_bytes_per_s=9)
    assert protocol_options(plain, model) == (
        SimulationOptions(slices=3, reduction_bytes_per_s=5, costs=one),
        SimulationOptions(slices=3, reduction_bytes_per_s=5, costs=other),
    )
    (first, _) = protocol_options(SimulationOptions(), model)
    assert first.reduction_bytes_per_s == 9
    for options in (SimulationOptions(alpha_ns=1), SimulationOptions(costs=one)):
        with pytest.raises(ScheduleError) as caught:
            protocol_options(options, model)
        assert str(caught.value) == ("simulation: a cost model has latencies; alpha is for times without one")
