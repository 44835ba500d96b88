"""Models as users name them: a function of a file, of the zoo, of a config.json; rules that they add."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle import capture, operator_rule
from treadle.errors import FormatError, TreadleError
from treadle.parallelism.capture import added_rules

MODULE = """
import torch
from torch import nn
from neighbour import WIDTH

class Rolled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(WIDTH))

    def forward(self, x):
        return torch.roll(x * self.weight, 1, 0)

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(WIDTH))

    def forward(self, x):
        return x @ self.weight[:3]

class Counting(Wrong):
    def forward(self, x):
        return x[torch.nonzero(x.sum(1))[:, 0]] * self.weight

def make():
    return Rolled(), (torch.empty(4, WIDTH),)

def layer():
    return Layer(), (torch.empty(2, 4, WIDTH),)

def wrong():
    return Wrong(), (torch.empty(4, WIDTH),)

def counting():
    return Counting(), (torch.empty(4, WIDTH),)

def fails():
    raise RuntimeError("not\\ntoday")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With a file of modules; rules that come from it are forgotten afterwards."""
    monkeypatch.setattr(added_rules, "ADDED", {})
    monkeypatch.setattr(added_rules, "_LOADED", set())
    (tmp_path / "modules.py").write_text(MODULE)
    (tmp_path / "neighbour.py").write_text("WIDTH = 8\n")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


def needs_torch() -> None:
    pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("llama-3-8b", {}, "--tokens N is missing"),
        (
            "llama-3-8b",
            {"tokens": 1000, "sequence": "8K"},
            "tokens 1000: not a multiple of the sequence length of 8192",
        ),
        ("llama-3-8b", {"tokens": "8K", "repeats": 3}, "repeats 3: llama-3-8b has its own layers"),
        ("resnet-50", {}, "resnet-50: it is trained on samples; capture its module"),
        ("switch-c", {"tokens": "1K", "sequence": 512}, "its decoder attends to an encoder"),
        ("model.py", {}, r"which of its functions makes the module\? expected as model.py:make"),
        ("nowhere.py:make", {}, "nowhere.py: no such file"),
        (7, {}, "source: expected a function"),
    ],
)
def test_what_names_no_model_is_refused(source: object, options: dict[str, int | str], words: str) -> None:
    with pytest.raises(TreadleError, match=words):
        capture(source, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("nn.Linear(64, 64)", "Linear"),
        ("(nn.Linear(64, 64), torch.empty(8, 64))", "tuple"),
        ("(nn.Linear(64, 64),)", "tuple"),
    ],
)
def test_a_function_without_example_inputs_is_named(tmp_path: Path, returned: str, found: str) -> None:
    needs_torch()
    file = tmp_path / "own.py"
    file.write_text(f"import torch\nfrom torch import nn\ndef mod():\n    return {returned}\n")
    words = (
        f"{file}:mod: returned {found}, no example inputs; return the module and a tuple of its inputs, e.g."
    )
    with pytest.raises(FormatError, match=f"^{re.escape(words)}") as caught:
        capture(f"{file}:mod")
    assert "\n" not in str(caught.value)
    file.write_text(file.read_text().replace(returned, "nn.Linear(64, 64), (torch.empty(16, 64),)"))
    assert capture(f"{file}:mod").parameters == 64 * 65


def test_rules_are_checked(folder: Path) -> None:
    with pytest.raises(FormatError, match=r"unknown kind 'EINSUMS'.*EINSUM"):
        operator_rule("my.double.default", "EINSUMS", "i->i")
    with pytest.raises(FormatError, match="expected as 'ij,jk->ik'"):
        operator_rule("my.double.default", "EINSUM", "i")
    with pytest.raises(FormatError, match="has a rule already"):
        operator_rule("aten.mm.default", "EINSUM", "ij,jk->ik")
    operator_rule("my.double.default", "ELEMENTWISE", "i->i")
    operator_rule("my.double.default", "ELEMENTWISE", "i->i")  # a file that is read twice
    with pytest.raises(FormatError, match="has a rule already"):
        operator_rule("my.double.default", "ELEMENTWISE", "ij->ij")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fails", r"modules\.py:fails: RuntimeError at .*modules\.py:\d+: not today"),
        ("wrong", r"capture: Wrong: .* at .*modules\.py:\d+: "),
        ("counting", r"aten\.nonzero\.default"),
        ("absent", "no function 'absent'"),
    ],
)
def test_what_fails_in_a_module_is_one_line(folder: Path, name: str, words: str) -> None:
    needs_torch()
    with pytest.raises(TreadleError, match=words) as caught:
        capture(f"{folder}/modules.py:{name}")
    assert "\n" not in str(caught.value)
