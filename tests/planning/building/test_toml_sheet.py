"""Small TOML files: lengths, prices, counts and lines at their limits and beyond."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.finder.building.toml_sheet import metres


def test_lengths_beyond_all_rooms() -> None:
    with pytest.raises(FormatError, match=r"^100000\.001m is more than 100000 m$"):
        metres("100000.001m")
