"""One library of lanes for all tests of the device runtime, whichever process needs it first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.fake_gpu import build_fake


@pytest.fixture(scope="session", autouse=True)
def lanes_library(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[None]:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if hasattr(request.config, "workerinput") else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TREADLE_CACHE_DIR", str(shared / "lanes"))
        yield


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, lanes_library: None) -> Path:
    """The GPU's library on a CUDA runtime of threads."""
    return build_fake(tmp_path_factory.mktemp("gpu") / "lanes.so")
