"""A dozen commands of tools/values.txt keep their recorded values, and every command is there."""

from __future__ import annotations

import random
import re
import tomllib
from typing import Any

from tools.values import _leaves, blocks, differences, load, measure_all

from places import ROOT
from treadle.options.verbs import ALIASES, VERBS

QUICK = 12.0
"""CPU of a quick command, in units of the loop."""


def test_quick_commands_keep_their_values() -> None:
    kept = load()
    alone = [block.commands[0] for block in blocks() if len(block.commands) == 1]
    names = random.Random(40).sample([name for name in alone if kept[name]["cpu"] < QUICK], 12)
    records = measure_all(re.compile("|".join(f"^{re.escape(name)}$" for name in names)), 2)
    assert sorted(records) == sorted(names)
    for name in names:
        assert differences(kept[name], records[name])[0] == [], name


def test_every_command_and_form_is_recorded() -> None:
    kept = load()
    names = [command for block in blocks() for command in block.commands]
    assert sorted(names) == sorted(kept), "run `python -m tools.values record --only REGEX` for new commands"
    verbs = {verb.split()[0] for verb in VERBS.keys() | ALIASES.keys()}
    assert verbs <= {name.split()[0] for name in names}
    output = tomllib.loads((ROOT / "src/treadle/cli/settings/json_output.toml").read_text(encoding="utf-8"))
    schemas = {str(record["exact"].get("schema")).split("/")[0] for record in kept.values()}
    assert set(output["commands"]) <= schemas


def test_what_is_worse_is_found() -> None:
    old: dict[str, Any] = {
        "status": 0,
        "exact": {"a": "1/2", "f": 1.0, "rows[]": [1, None]},
        "least": {"steps": 3},
        "times": {"time_s": [1.0, None]},
        "files": {"a.plan": [90, "00"]},
    }
    assert differences(old, old) == ([], [])
    worse = {
        "status": 1,
        "exact": {"a": "1/3", "f": 1.1, "rows[]": [1, 2], "new": 1},
        "least": {"steps": 4},
        "times": {"time_s": [1.02, None]},
        "files": {},
    }
    assert len(differences(old, worse)[0]) == 8
    better = old | {
        "least": {"steps": 2},
        "times": {"time_s": [0.5, None]},
        "exact": {**old["exact"], "f": 1 + 1e-9},
    }
    assert [line.split(":")[0] for line in differences(old, better)[1]] == ["f", "steps", "time_s"]


def test_rows_are_named_where_their_names_differ() -> None:
    rows = [{"algorithm": "ring", "steps": 3}, {"algorithm": "swing", "steps": 2}]
    assert [path for path, _ in _leaves({"rows": rows}, "")] == [
        *("rows[=ring].algorithm", "rows[=ring].steps", "rows[=swing].algorithm", "rows[=swing].steps"),
    ]
    assert next(path for path, _ in _leaves({"rows": [rows[0]] * 2}, "")) == "rows[].algorithm"
