"""Numbers of options and of costs at their limits, and one beyond each, with the words of the refusal."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.simulation.costs.cost_model import Protocol
from treadle.simulation.costs.cost_model_file import parse_cost_model
from treadle.simulation.simulation_options import SimulationOptions

TEN_12 = 10**12


def test_alpha_is_beside_no_costs() -> None:
    assert SimulationOptions(costs=Protocol("p")).costs == Protocol("p")
    with pytest.raises(ScheduleError) as caught:
        SimulationOptions(alpha_ns=3, costs=Protocol("p"))
    assert str(caught.value) == "simulation: both alpha 3 ns and costs of p; use one of them"


FILE = """{"treadle": "cost-model", "version": 1, "name": "n", "source": "s", "reduction_bytes_per_s": 7,
"bands": {"p.box.alpha_ns": [1, 2.5], "p.box.hop_ns": [3, 3]},
"protocols": [{"name": "p", "launch_ns": 1, "channels": 2, "channel_bytes_per_s": 3,
"box": {"alpha_ns": 4, "occupancy_ns": 5, "hop_ns": 6, "efficiency": "2/3"},
"hop": {"efficiency": 0.25}, "network": {"alpha_ns": 8}}, {"name": "q"}]}"""


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
