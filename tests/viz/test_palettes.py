"""Neighbours in each palette are told apart by people who see colours otherwise; text stands out."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from treadle.viz.painting import HOPS, LOADS, TASKS, Style
from treadle.viz.svg import GROUNDS, INKS

# Machado, Oliveira, Fernandes 2009: severity 1.0, on linear RGB
SEEN = {
    "all": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)


def linear(colour: str) -> np.ndarray:
    word = colour.lstrip("#")
    word = "".join(letter * 2 for letter in word) if len(word) == 3 else word
    value = np.array([int(word[at : at + 2], 16) / 255 for at in (0, 2, 4)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    x, y, z = (TO_XYZ @ np.clip(rgb, 0, 1)) / np.array([0.95047, 1.0, 1.08883])
    x, y, z = (v ** (1 / 3) if v > (6 / 29) ** 3 else v / (3 * (6 / 29) ** 2) + 4 / 29 for v in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SEEN)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("palette", [LOADS, HOPS], ids=["loads", "hops"])
def test_neighbours_differ(palette: tuple[Style, ...], theme: str, sight: str) -> None:
    seen = [lab(SEEN[sight] @ linear(getattr(style, theme))) for style in palette]
    apart = [float(np.linalg.norm(one - other)) for one, other in pairwise(seen)]
    assert min(apart) >= 12, apart


@pytest.mark.parametrize("sight", SEEN)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_any_two_kinds_of_tasks_differ(theme: str, sight: str) -> None:
    seen = [lab(SEEN[sight] @ linear(getattr(style, theme))) for style in TASKS]
    apart = [float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)]
    assert min(apart) >= 12, apart


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_letters_on_tasks_stand_out(theme: str) -> None:
    for style in TASKS:
        assert contrast(getattr(style, theme), style.label_colour(theme)) >= 4.5, style.name


def contrast(one: str, other: str) -> float:
    light, dark = sorted((float(TO_XYZ[1] @ linear(colour)) for colour in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out(theme: str) -> None:
    for ground in GROUNDS[theme]:
        for ink in INKS[theme]:
            assert contrast(ground, ink) >= 4.5, (ground, ink)
