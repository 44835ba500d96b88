"""Cost models as JSON files: round trips, and files of nobody's good will."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from pathlib import Path

import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.planning import as_cost_model, cost_presets, save_cost_model, simulate, solve
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.simulation.costs.cost_model_file import cost_model_to_json, dump_cost_model, parse_cost_model

FULL = CostModel(
    "mine",
    "measured in June",
    (
        Protocol(
            "ll", ClassCost(600, 0, 5, Fraction(1, 3)), launch_ns=6600, channels=2, channel_bytes_per_s=7
        ),
        Protocol("simple", network=ClassCost(alpha_ns=14_000, occupancy_ns=3000)),
    ),
    reduction_bytes_per_s=10**11,
    bands={"simple.network.alpha_ns": (12_000.0, 16_000.0)},
)


@pytest.mark.parametrize("model", [FULL, *cost_presets().values()], ids=lambda model: model.name)
def test_written_and_read_it_is_the_same(model: CostModel, tmp_path: Path) -> None:
    save_cost_model(tmp_path / "model.json", model)
    assert as_cost_model(tmp_path / "model.json") == model
    assert hash(as_cost_model(str(tmp_path / "model.json"))) == hash(model)
    assert pickle.loads(pickle.dumps(model)) == model


def test_what_comes_with_treadle_has_a_source_and_all_protocols() -> None:
    models = cost_presets()
    assert all(name == model.name and len(model.source) > 20 for name, model in models.items())
    hopper = models["nccl-hopper"]
    assert [(one.name, one.launch_ns) for one in hopper.protocols] == [
        ("ll", 6600),
        ("ll128", 14_000),
        ("simple", 8400),
    ]
    assert [one.network.occupancy_ns for one in hopper.protocols] == [1000, 1000, 3000]
    reference = models["reference"].protocols[0]
    assert (reference.box.alpha_ns, reference.network.alpha_ns, reference.hop.hop_ns) == (1000, 5000, 500)


def test_what_is_left_out_is_nothing() -> None:
    text = '{"treadle": "cost-model", "version": 1, "name": "n", "source": "s", "protocols": [{"name": "p"}]}'
    assert parse_cost_model(text) == CostModel("n", "s", (Protocol("p"),))


def changed(**values: object) -> str:
    return json.dumps({**cost_model_to_json(FULL), **values})


def of_protocol(**values: object) -> str:
    return changed(protocols=[{"name": "p", **values}])


def of_class(**values: object) -> str:
    return of_protocol(box=values)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "malformed|expected|JSON"),
        ("[]", "expected an object"),
        ("{" * 5000, "malformed|nest"),
        (changed(treadle="topology"), 'treadle: expected "cost-model", found "topology"'),
        (changed(version=2), "version: expected 1, found 2"),
        (changed(version=True), "version: expected an integer, found true"),
        (changed(extra=1), 'unknown key "extra"'),
        (changed(name=5), "name: expected a string, found 5"),
        (changed(name="a\nb"), "expected a line"),
        (changed(source=""), "expected a line"),
        (changed(protocols={}), "expected a list"),
        (changed(protocols=[]), "protocols none; expected 1 to 16"),
        (changed(protocols=[{"name": "p"}] * 2), "of different names"),
        (changed(protocols=[{"name": str(i)} for i in range(17)]), "expected 1 to 16"),
        (changed(protocols=[{}]), r"protocols\[0\]: key 'name' is missing"),
        (changed(reduction_bytes_per_s=-1), "sums at -1"),
        (changed(reduction_bytes_per_s=1.5), "reduction_bytes_per_s: expected an integer, found 1.5"),
        (changed(bands={"x": [2, 1]}), "the smaller first"),
        (changed(bands={"x": [1]}), r'bands\["x"\]: expected a list of length 2, found 1'),
        (changed(bands=[]), "expected an object"),
        (of_protocol(nam=1), 'unknown key "nam"'),
        (of_protocol(launch_ns=-1), "launch_ns -1"),
        (of_protocol(launch_ns=10**13), "expected 0 to"),
        (of_protocol(launch_ns=True), r"protocols\[0\].launch_ns: expected an integer, found true"),
        (of_protocol(channels=3), "go together"),
        (of_protocol(channels=10**9, channel_bytes_per_s=1), "expected at most"),
        (of_protocol(box=[1]), "expected an object"),
        (of_class(alpha_ns=-5), "alpha_ns -5"),
        (of_class(alpha_ns="1us"), r'protocols\[0\].box.alpha_ns: expected an integer, found "1us"'),
        (of_class(latency=1), 'unknown key "latency"'),
        (of_class(efficiency=0), "more than 0"),
        (of_class(efficiency="3/2"), "at most 1"),
        (of_class(efficiency="1/0"), "expected a share"),
        (of_class(efficiency="1/1234567"), "denominator"),
        (of_class(efficiency="1e-999999999"), "expected a share"),
        (of_class(efficiency="9" * 10_000), "expected a share"),
        (of_class(efficiency=None), "expected a share"),
        (dump_cost_model(FULL).replace("6600", "NaN"), "NaN"),
        (dump_cost_model(FULL).replace("6600", "9" * 100), "digits"),
    ],
)
def test_hostile_files_are_refused_in_one_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(FormatError, match=words) as caught:
        as_cost_model(tmp_path / "bad.json")
    assert str(tmp_path / "bad.json") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600 + len(str(tmp_path))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    for given in ("nowhere.json", tmp_path, 5, "\0"):
        with pytest.raises(FormatError):
            as_cost_model(given)
    with pytest.raises(FormatError, match="neither a file that exists nor one of reference, "):
        as_cost_model("referense")
    (tmp_path / "large.json").write_text(" " * (2**20 + 1))
    with pytest.raises(FormatError, match="larger than"):
        as_cost_model(tmp_path / "large.json")


@pytest.mark.parametrize(
    "values",
    [{"name": ""}, {"name": "x" * 41}, {"launch_ns": -1}, {"channels": 1}, {"channel_bytes_per_s": 2**60}],
)
def test_values_have_ranges(values: dict[str, object]) -> None:
    with pytest.raises(ScheduleError, match=r"expected|go together"):
        Protocol(**{"name": "p", **values})


def test_python_and_the_command_line_have_one_default() -> None:
    """Without options a hop of a fabric that states no latencies is of `reference`, as simulate prints it."""
    plan = solve('ring(4, bandwidth="1GB/s", bidirectional=False)', "allgather", algorithm="ring").plan
    assert simulate(plan, [4], auto_slices=False).rows[0].time == 3 * Fraction(50 + 1 + 500 + 1000, 10**9)
