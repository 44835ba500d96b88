"""Files about boxes that were changed at random: the same fabric where nothing was said, else a refusal."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samples.box_files import amd_smi_tables, hwloc_xml, nccl_xml, nvidia_smi_matrix, rocm_smi_tables
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies.readers.imported import Imported

MUTANTS = 80
EVEN = [[0 if i == j else 18 for j in range(8)] for i in range(8)]
XGMI = [[0 if i == j else 15 for j in range(8)] for i in range(8)]
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "nccl-xml": (nccl_xml(), {}),
    "nvidia-smi": (nvidia_smi_matrix(EVEN, [[i] for i in range(8)]), {"gpu": "h100"}),
    "rocm-smi": (rocm_smi_tables(XGMI), {"gpu": "mi300x"}),
    "amd-smi": (amd_smi_tables(XGMI), {"gpu": "mi300x"}),
    "hwloc-xml": (hwloc_xml(), {}),
}
Change = Callable[[str, random.Random], str]


def cut(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text))]


def flipped(text: str, chance: random.Random) -> str:
    letters = list(text)
    for _ in range(chance.randint(1, 4)):
        letters[chance.randrange(len(letters))] = chr(
            chance.choice([0, 9, 32, 34, 48, 57, 60, 62, 127, 0xE9, 0x2028])
        )
    return "".join(letters)


def with_lines_moved(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    what, where = chance.randrange(len(lines)), chance.randrange(len(lines))
    kind = chance.randrange(3)
    if kind == 0:
        del lines[what]
    elif kind == 1:
        lines.insert(where, lines[what])
    else:
        lines[what], lines[where] = lines[where], lines[what]
    return "\n".join(lines)


def with_a_number_changed(text: str, chance: random.Random) -> str:
    numbers = list(re.finditer(r"[0-9]+", text))
    match = chance.choice(numbers)
    wild = chance.choice(["0", "-1", "65", "1e9", "nan", "99999999999999999999", "0" * 400, ""])
    return text[: match.start()] + wild + text[match.end() :]


HARMFUL: tuple[Change, ...] = (cut, flipped, with_lines_moved, with_a_number_changed)


@pytest.mark.parametrize("name", TEXTS)
def test_damage_is_refused_in_one_line_or_read_as_it_stands(tmp_path: Path, name: str) -> None:
    """Never another error, nor fewer GPUs without a word; and many are refused: the damage is real."""
    text, options = TEXTS[name]
    chance, path, refused = random.Random(name), tmp_path / "box", 0
    path.write_text(text)
    n = len(planning.import_topology(path, **options).topology.compute_nodes)
    for number in range(MUTANTS):
        path.write_bytes(HARMFUL[number % len(HARMFUL)](text, chance).encode("utf-8", "surrogatepass"))
        found = attempt(path, name, options)
        if isinstance(found, str):
            assert found.startswith(str(path))
            assert len(found.splitlines()) == 1
            refused += 1
        else:
            assert len(found.topology.compute_nodes) == n or found.warnings
    assert refused > MUTANTS // 3


def attempt(path: Path, name: str, options: dict[str, Any]) -> Imported | str:
    """What a file holds, or what is wrong with it."""
    try:
        return planning.import_topology(path, format=name, **options)
    except FormatError as error:
        return str(error)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("what", ["", "\n" * 100_000, "\x00", "<", "GPU0\n", "a" * 100_000])
def test_texts_of_nothing_are_refused(tmp_path: Path, name: str, what: str) -> None:
    path = tmp_path / "box"
    path.write_text(what)
    with pytest.raises(FormatError):
        planning.import_topology(path, format=name)
