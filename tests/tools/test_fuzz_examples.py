"""What the search for faults has found so far: mended faults stay so, known ones are still known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.fuzz.examples import LONGEST, Example, keep_example, read_example, read_examples
from tools.fuzz.finding import Finding, Kind
from tools.fuzz.judge import judge

EXAMPLES = read_examples()
STOPPED = (Kind.HANG, Kind.MEMORY, Kind.DIED)
"""Not to be repeated in the tests' own process while they are open."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_as_they_are_marked(name: str) -> None:
    example = EXAMPLES[name]
    finding = example.finding
    if example.is_open and finding.kind in STOPPED:
        return
    found = judge(finding.target, finding.case)
    if example.is_open:
        assert found is not None, f'{name} is mended: write "open": false into its file'
        assert found.kind == finding.kind
    else:
        assert found is None, f"{found.kind}: {found.place}\n{found.message}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_small(name: str) -> None:
    assert len(json.dumps(EXAMPLES[name].finding.to_json())) < LONGEST


def test_examples_come_back_from_their_files(tmp_path: Path) -> None:
    finding = Finding(
        "texts", Kind.CRASH, "KeyError in x.y", "told\nin full", {"text": "\ud800\0", "base": "b"}
    )
    path = keep_example(finding, tmp_path / "kept")
    assert read_example(path) == Example(finding, is_open=True)
    assert list(read_examples(tmp_path / "kept")) == [path.stem]
    assert read_examples(tmp_path / "absent") == {}
