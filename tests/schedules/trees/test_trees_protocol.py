"""Forests are read through what they offer: nobody else knows in which arrays they keep their trees."""

from __future__ import annotations

import ast
from pathlib import Path

import treadle

ARRAYS = {
    "tree_root",
    "tree_multiplicity",
    "parent",
    "entry_offset",
    "entry_path",
    "entry_units",
    "path_offset",
    "path_links",
}
ITS_OWN = "schedules/trees/"


def _reads(text: str) -> bool:
    """Whether a module reads an array of something that is called a forest."""
    if not any(array in text for array in ARRAYS) or "forest" not in text:
        return False
    names = {"turned"} if "turned = forest" in text else set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in ARRAYS:
            of = node.value
            name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
            if name.endswith("forest") or name in names:
                return True
    return False


def test_a_read_is_found() -> None:
    assert _reads("def f(forest):\n    return forest.path_links")
    assert _reads("def f(self):\n    return self._forest.entry_path[0]")
    assert not _reads("def f(program, forest):\n    return program.path_links, forest.all_paths()")


def test_only_their_package_reads_the_arrays_of_forests() -> None:
    source = Path(treadle.__file__).parent
    found = set()
    for path in source.rglob("*.py"):
        place = path.relative_to(source).as_posix()
        # the judge has a copy of each array checked before it believes a reader
        if not place.startswith((ITS_OWN, "verification/trees/")) and _reads(
            path.read_text(encoding="utf-8")
        ):
            found.add(place)
    assert not found
