"""The lowest versions are those of pyproject.toml, all of them, and nothing is declared without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.lowest import LEFT_OUT, lowest, main


def test_every_requirement_has_a_lowest_version(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    printed = capsys.readouterr().out.split()
    text = (repository / "pyproject.toml").read_text(encoding="utf-8")
    section = text[text.index("[project]") : text.index("[project.scripts]")]
    section = re.sub(r"^(?:docs|release) = \[.*?^\]", "", section, flags=re.DOTALL | re.MULTILINE)
    names = dict(re.findall(r'"([A-Za-z0-9_-]+)(?:>=|==)([0-9.]+)(?:,<=[0-9.]+)?"', section))
    assert {"numpy", "highspy", "click", "dask", "scipy"} <= set(names)
    assert dict(pin.split("==") for pin in printed) == {
        name: version for name, version in names.items() if name not in LEFT_OUT
    }


@pytest.mark.parametrize("requirement", ["numpy", "numpy<3", "numpy>2.0", "numpy>=2.0,<3", "numpy>=2.*"])
def test_other_bounds_are_refused(requirement: str) -> None:
    with pytest.raises(ValueError, match="its lowest version"):
        lowest(requirement)
