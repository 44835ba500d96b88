"""Edits of objects of JSON, each of one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Change = Callable[[Any], object]


def at(path: str, value: Any) -> Change:
    """Sets what is at a place, such as ``gpus 0 id``; a list grows at ``+``."""
    keys: list[Any] = [int(word) if word.isdigit() else word for word in path.split()]

    def change(whole: Any) -> None:
        inner = whole
        for key in keys[:-1]:
            inner = inner[key]
        if keys[-1] == "+":
            inner.append(value)
        else:
            inner[keys[-1]] = value

    return change


def without(path: str) -> Change:
    """Drops what is at a place."""
    keys: list[Any] = [int(word) if word.isdigit() else word for word in path.split()]

    def change(whole: Any) -> None:
        inner = whole
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]

    return change
