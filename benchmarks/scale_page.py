"""The rows of scale.py as the page docs/results/scale.md."""

from __future__ import annotations

from collections.abc import Sequence

Row = dict[str, object]

_OPENING = """# Scale

Generated: `.venv/bin/python benchmarks/scale.py --docs docs` (`--quick` for up to 4096 GPUs). All
schedules are allgathers. Each row is a process of its own in one thread, on a shared machine. "CPU s" is
synthesis alone: the optimum, its cut, and the forest; "verify s" is the independent verifier, which has
accepted every schedule here. "MB" is the peak of the whole process, fabric and verifier included. k:
trees per root.
"""

_PUBLISHED = """
## 1024 GPUs, beside the authors' ForestColl
The last column is what the authors' own generator took (dissertation, chapter 4, Table B.2: Java on 128
cores). Ours is one thread of another machine: the ratio is an order of magnitude, not a race.
"""

_LARGE = """
## Up to 65,536 GPUs: tight cuts
By [decomposition](../algorithms/decomposition.md), to the factored forest. "height": the verifier's, of
all trees of all roots, exact unless a <= stands before it. "trees": the most distinct trees of one of three
roots (first, middle, last). Where tight cuts do not apply nothing else is tried here, and the
row says why.
"""

_DAMAGED = """
## 65,536 GPUs, 100 failures
Random ones (seed {seed}), of the links or NICs that the second column tells. The columns are the same;
"optimal": of the damaged fabric.
"""

_GENERIC = """
## Any fabric of 1024 and 4096 nodes: the default path
What `treadle solve` does without options. "bound": no spanning tree is lower, in hops from compute node
to compute node.
`near_tight_clusters(c, n)`: c circulants of n nodes and degree 4 in a ring, neighbours joined by two
links.
`irregular_boxes(b)`: b boxes of 2 to 8 GPUs at random, every GPU on one of two network switches at
random.
"""

_REPAIR = """
## Repair
`treadle repair` after one failure, reading the plan left out: the damaged fabric, its optimum and cut, and
the new forest. "kinds" of pieces before and after.
"""


def page(rows: Sequence[Row], seed: int) -> str:
    """The page in Markdown."""
    parts = [_OPENING]
    for table, text, columns in (
        ("published", _PUBLISHED, _PUBLISHED_COLUMNS),
        ("large", _LARGE, _LARGE_COLUMNS),
        ("damaged", _DAMAGED.format(seed=seed), _DAMAGED_COLUMNS),
        ("repair", _REPAIR, _REPAIR_COLUMNS),
        ("generic", _GENERIC, _GENERIC_COLUMNS),
    ):
        chosen = [row for row in rows if row["table"] == table]
        if chosen:
            parts += [text, _table(columns, chosen)]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _table(columns: Sequence[tuple[str, str, str]], rows: Sequence[Row]) -> str:
    """Lines of a table; a refusal fills the last column."""
    lines = [
        "| " + " | ".join(heading for heading, _, _ in columns) + " |",
        "|" + "---|" * len(columns),
    ]
    for row in rows:
        cells = [_cell(row.get(key), form) for _, key, form in columns]
        if not row.get("height_is_exact", True):
            place = [key for _, key, _ in columns].index("height")
            cells[place] = f"<= {cells[place]}"
        if not row.get("verified", True):
            cells[-1] = "NOT VERIFIED"
        if "refusal" in row:
            cells[-1] = str(row["refusal"])
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: object, form: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return format(value, form)


_MADE = ("made by", "packer", "")
_PUBLISHED_COLUMNS = (
    ("fabric", "name", ""),
    ("GPUs", "ranks", ",d"),
    ("optimal", "optimal", ""),
    ("k", "k", "d"),
    ("height", "height", "d"),
    ("CPU s", "cpu_s", ".3f"),
    ("verify s", "verify_s", ".3f"),
    ("MB", "peak_mb", ".0f"),
    ("authors", "published", ""),
)
_LARGE_COLUMNS = (
    ("fabric", "name", ""),
    ("GPUs", "ranks", ",d"),
    ("optimal", "optimal", ""),
    ("k", "k", "d"),
    ("trees", "distinct_trees", "d"),
    ("height", "height", "d"),
    ("CPU s", "cpu_s", ".3f"),
    ("verify s", "verify_s", ".2f"),
    ("MB", "peak_mb", ".0f"),
    _MADE,
)
_DAMAGED_COLUMNS = (_LARGE_COLUMNS[0], ("failed", "published", ""), *_LARGE_COLUMNS[1:])
_GENERIC_COLUMNS = (
    ("fabric", "name", ""),
    ("nodes", "ranks", ",d"),
    ("optimal", "optimal", ""),
    ("k", "k", "d"),
    ("height", "height", "d"),
    ("bound", "height_bound", "d"),
    ("CPU s", "cpu_s", ".2f"),
    ("verify s", "verify_s", ".2f"),
    ("MB", "peak_mb", ".0f"),
    _MADE,
)
_REPAIR_COLUMNS = (
    ("fabric", "name", ""),
    ("GPUs", "ranks", ",d"),
    ("failed", "published", ""),
    ("optimal", "optimal", ""),
    ("loss", "loss", ".2%"),
    ("kinds", "kinds", ""),
    ("k", "k", "d"),
    ("height", "height", "d"),
    ("CPU s", "cpu_s", ".3f"),
    ("verify s", "verify_s", ".2f"),
    ("MB", "peak_mb", ".0f"),
    _MADE,
)
