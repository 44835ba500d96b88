"""What tests of commands share."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.cli.output import Output
from treadle.render.quantities import Rates


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    """Lines that a call prints."""

    def told(function: Any, *arguments: Any) -> list[str]:
        capsys.readouterr()
        function(Output(False, False, Rates("")), *arguments)
        return capsys.readouterr().out.splitlines()

    return told
