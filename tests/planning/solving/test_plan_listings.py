"""Manifests of plans read entry by entry, and ranges of sizes with gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.schedulers.plan_directory import (
    _from_manifest,
)


def manifest(**collective: Any) -> dict[str, Any]:
    return {
        "treadle": "plan",
        "topology_sha256": "ab",
        "collective": {"kind": "reduce", "ranks": [7, 5, 9, 6], "root": 2, **collective},
        "entries": [{"min_bytes": 0, "max_bytes": 3}, {"min_bytes": 4, "max_bytes": None}],
    }


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({**manifest(), "treadle": "set"}, 'manifest: expected "treadle": "plan"'),
        ({"treadle": "plan"}, "manifest: KeyError 'collective'"),
        ([], "manifest: TypeError "),
        (manifest(groups=[[4]]), "manifest: IndexError "),
        (manifest(ranks=[1.5]), "ranks: expected "),
        (manifest(root="2"), "root: expected an integer"),
        (manifest(groups=3), "groups: expected a list"),
        ({**manifest(), "entries": 3}, "entries: expected a list"),
        ({**manifest(), "entries": [{"min_bytes": "0"}]}, "min_bytes: expected an integer"),
        ({**manifest(), "topology_sha256": 3}, "topology_sha256: expected a string"),
    ],
)
def test_what_a_manifest_must_not_say(value: Any, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        _from_manifest(Path("x.plan"), value)
    assert str(caught.value).startswith(said)
