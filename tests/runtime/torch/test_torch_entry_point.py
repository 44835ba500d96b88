"""The backend is found by its name alone where Treadle is installed."""

import logging

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from treadle.torch import registration  # noqa: E402


def test_a_torch_without_gloo_is_still_imported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.distributed, "is_gloo_available", lambda: False)
    with caplog.at_level(logging.DEBUG, "treadle.torch"):
        registration.autoload()
    assert "not registered: the backend treadle needs gloo" in caplog.text
