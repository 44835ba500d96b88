"""What holds of every format of the table, whoever adds it: written, read, judged and told truthfully."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import missing_engines
from samples.format_samples import NAMES, taken, words
from treadle.cli.main import main
from treadle.errors import TreadleError
from treadle.formats.format import all_formats, find_format, format_name
from treadle.formats.verdict import Check, Planned, Terms, Verdict
from treadle.planning import Lowered, TargetFormat, own_formats
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import save_plan
from treadle.synthesis.trees.baselines.boxes import find_boxes


@pytest.fixture(autouse=True)
def _needs(request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params.get("name") if hasattr(request.node, "callspec") else None
    if name == "chakra" and "Chakra" in missing_engines():
        pytest.skip(f"Chakra: {missing_engines()['Chakra']}")


def terms(plan: Plan, made: Lowered) -> Terms:
    collective, schedule = plan.collective, plan.entries[-1].schedule
    planned = Planned(plan.topology, collective, schedule, lambda: find_boxes(plan.topology, collective))
    return Terms(profile=made.dialect or None, root=collective.root or 0, planned=planned)


def judged(name: str, files: list[bytes], plan: Plan, made: Lowered) -> Verdict | None:
    """The judge's verdict; None if it refuses the files, in one line."""
    message = ""
    try:
        return find_format(name).interpreted(files, terms(plan, made))
    except TreadleError as error:
        message = str(error)
    assert "\n" not in message
    return None


def test_names_are_those_of_our_own() -> None:
    assert {record.name for record in own_formats()} == set(TargetFormat)
    assert len({record.name for record in all_formats()}) == len(all_formats())


@pytest.mark.parametrize("name", NAMES)
def test_some_plan_is_written_and_passes_its_judge(name: str) -> None:
    record = find_format(name)
    made = taken(name)
    assert made, "no sample plan is taken: add one to tests/samples/format_samples.py"
    for _, lowered in made:
        assert lowered.faults == ()
        assert lowered.verdict.check is record.check
        assert lowered.counts
        suffixes = [suffix for suffix, _ in lowered.files]
        assert len(set(suffixes)) == len(suffixes)
        if record.is_per_rank:
            assert all(suffix.endswith(record.extension) for suffix in suffixes)
        for said in (lowered.loading.runtime, lowered.loading.check, lowered.loading.fallback):
            assert said


@pytest.mark.parametrize("name", NAMES)
def test_files_are_told_by_their_content(name: str) -> None:
    record = find_format(name)
    for _, lowered in taken(name)[:2]:
        for _, data in lowered.files[:2]:
            head = data[: 2**16].decode("utf-8", "replace")
            found = format_name(head)
            assert found is (record if record.begins else None)
            for other in all_formats():
                assert other.is_begun_by(head) == (other is record and bool(record.begins))


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_read_back(name: str) -> None:
    record = find_format(name)
    for plan, lowered in taken(name):
        for _, data in lowered.files:
            assert record.parsed(data, terms(plan, lowered)) is not None
            break
        with pytest.raises(TreadleError):
            record.parsed(b"\x00\xff", Terms())


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_out_is_seen(name: str) -> None:
    """Of files without one of their lines (or without some bytes), most are refused or found wrong."""
    plan, lowered = taken(name)[0]
    data = lowered.files[0][1]
    try:
        parts = data.decode().splitlines(keepends=True)
        without = [(parts[:at] + parts[at + 1 :]) for at in range(len(parts))]
        if len(parts) < 3:  # all in one line
            without = [[*data.decode()[:at], *data.decode()[at + 5 :]] for at in range(0, len(data), 97)]
        damaged = ["".join(lines).encode() for lines in without]
    except UnicodeDecodeError:
        damaged = [data[:at] + data[at + 3 :] for at in range(0, len(data), 7)]
    seen = 0
    for other in damaged[:: max(1, len(damaged) // 40)]:
        found = judged(name, [other, *(rest for _, rest in lowered.files[1:])], plan, lowered)
        seen += found is None or bool(found.violations)
    assert seen >= 0.6 * len(damaged[:: max(1, len(damaged) // 40)])


@pytest.mark.parametrize("name", NAMES)
@settings(derandomize=True, database=None, deadline=None, max_examples=25)
@given(steps=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255), st.booleans()), min_size=1, max_size=4))
def test_damaged_files_are_judged_or_refused_in_one_line(
    name: str, steps: list[tuple[float, int, bool]]
) -> None:
    plan, lowered = taken(name)[0]
    data = lowered.files[0][1]
    for where, value, keeps in steps:
        at = int(where * (len(data) - 1))
        data = data[:at] + bytes([value]) + data[at + keeps :]
    judged(name, [data, *(rest for _, rest in lowered.files[1:])], plan, lowered)


CLAIMS = {
    Check.EXECUTED: "executed by Treadle's own interpreter",
    Check.COMPARED: "compared with the plan",
    Check.PARSED: "parsed back",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_command_line_claims_what_was_done(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, (plan, lowered) = find_format(name), taken(name)[0]
    path = tmp_path / "sample.plan"
    save_plan(path, plan)
    command = ["lower", str(path), "--to", name, "-o", f"{tmp_path}/texts/", *words(record, plan)]
    assert main(command) == 0
    (checked,) = re.findall(r"^checked .*(?:\n  .*)*$", capsys.readouterr().out, re.MULTILINE)
    checked = " ".join(checked.split())
    assert CLAIMS[record.check] in checked
    assert ("nothing executed" in checked) == (record.check is not Check.EXECUTED)
    assert main([*command, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["format"], values["judged"]) == (name, record.check)
    assert values["interpreted"] == (record.check is Check.EXECUTED)
    assert not values["loaded_by_runtime"]
    written = sorted((tmp_path / "texts").iterdir())
    assert [one.read_bytes() for one in written] == [data for _, data in sorted(lowered.files)]
    assert all(one.name.endswith(record.extension) for one in written)
    if not record.begins:
        return
    assert main(["verify", str(written[0]), "--json", *_root(plan, record.options)]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["format"].startswith(name)
    assert values.get("verified") is (True if record.check is Check.EXECUTED else None)
    # without its plan a file can be executed, but not compared
    assert values["judged"] == (Check.EXECUTED if record.check is Check.EXECUTED else Check.PARSED)


def _root(plan: Plan, options: frozenset[str]) -> list[str]:
    root = plan.collective.root
    return [] if root is None or "accept_any_root" not in options else ["--root", str(root)]
