"""Model graphs: parts that fit, what constructors and readers refuse, JSON."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.parallelism.graph.model_files import read_model_graph


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(FormatError, match=r"g\.json:1:2: malformed JSON"):
        read_model_graph("{", source="g.json")
