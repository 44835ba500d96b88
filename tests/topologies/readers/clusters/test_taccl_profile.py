"""TACCL's profiles and ASTRA-sim's networks link by link, and every refusal in full."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.topologies.readers.clusters import taccl_profile
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile

PROFILE: dict[str, Any] = {
    "name": "odd",
    "gpus_per_node": 3,
    "nics_per_node": 2,
    "alpha": 0.005,
    "node_betas_list": [2],
    "remote_alpha": 0.009,
    "remote_beta": 5,
}


def read(document: object, **options: Any) -> Imported:
    text = document if isinstance(document, str) else json.dumps(document)
    given = {"chunk_size": 1000, **options}
    return taccl_profile.read(SourceFile(text, "t.json"), ImportOptions(**given))


MATRICES = {
    "name": "m",
    "gpus_per_node": 3,
    "alpha": 0.005,
    "links": [[0, 0, 1], [2, 0, 0], [0, 64, 0]],
    "betas": [[0, 0, 2], [4, 0, 0], [0, 5, 0]],
}


def test_sizes_are_counted_before_boxes_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[dict[str, int]] = []
    monkeypatch.setattr(taccl_profile, "check_import_size", lambda _, **counts: sizes.append(counts))
    read(PROFILE, boxes=5, network="relay:2-1,0-0")
    read(MATRICES)
    assert sizes == [{"nodes": 5 * 4 + 2, "links": 5 * (6 + 5 * 2)}, {"nodes": 4, "links": 67}]
