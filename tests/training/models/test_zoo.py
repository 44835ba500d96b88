"""Sizes of models against what authors and published weights say; FLOPs against independent counts."""

from __future__ import annotations

import pytest

from treadle.errors import TreadleError
from treadle.training.models.zoo import zoo_model


def test_unknown_names_list_what_there_is() -> None:
    assert zoo_model("Llama 3 8B") == zoo_model("llama-3-8b")
    with pytest.raises(
        TreadleError, match=r"unknown model 'lama-3-8b'; did you mean llama-3-8b.*config.json"
    ):
        zoo_model("lama-3-8b")
