"""Write src/treadle/options/keywords.pyi: the keyword arguments of the Python API for type checkers."""

from __future__ import annotations

import re
from pathlib import Path

from treadle.options import keywords

STUB = Path(__file__).resolve().parent.parent / "src/treadle/options/keywords.pyi"


def stub() -> str:
    """Return the text of the stub."""
    tables = {name: keywords.annotations_of(name) for name in keywords.TABLES}
    said = set(re.findall(r"\w+", " ".join(text for table in tables.values() for text in table.values())))
    homes: dict[str, list[str]] = {"typing": ["Any", "TypedDict"]}
    for name in sorted(said & keywords.HOMES.keys()):
        homes.setdefault(keywords.HOMES[name], []).append(name)
    imports = [
        f"from {home} import {', '.join(names)}"
        for home, names in sorted(homes.items(), key=lambda one: (one[0].startswith("treadle"), one[0]))
    ]
    first = next(place for place, line in enumerate(imports) if "treadle" in line)
    lines = ["# written by `python -m tools.keywords`", "", *imports[:first], "", *imports[first:], ""]
    lines += ["TABLES: Mapping[str, str]", "HOMES: Mapping[str, str]", ""]
    lines += [
        "def annotations_of(name: str) -> dict[str, str]: ...",
        "def types_of(keywords: Any) -> dict[str, Any]: ...",
    ]
    for name, table in tables.items():
        lines += [
            "",
            f"class {name}(TypedDict, total=False):",
            *(f"    {key}: {text}" for key, text in table.items()),
        ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
