"""Which faults are tried: drawn at random, from each package in proportion to its size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from .core_operators import core_mutants
from .mutant import Mutant
from .operators import python_mutants

CORE = "src/core"
_LEFT_OUT = ("__init__.py", "_pb2.py", "__main__.py")
"""Tables of public names, generated code, and what is run by hand."""


def source_files(root: Path) -> dict[str, list[str]]:
    """Files that faults can be planted in, by package; paths from the root."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "src/treadle").rglob("*.py")):
        if not path.name.endswith(_LEFT_OUT):
            name = path.relative_to(root).as_posix()
            found[str(Path(name).parent)].append(name)
    for path in sorted((root / CORE).rglob("*.[ch]pp")):
        found[CORE].append(path.relative_to(root).as_posix())
    return dict(found)


def lines_of(text: str) -> int:
    """Lines that are not blank."""
    return sum(1 for line in text.splitlines() if line.strip())


def shares(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """`count` dealt out in proportion to sizes, by largest remainders.

    Examples
    --------
    >>> shares({"a": 50, "b": 30, "c": 20}, 4)
    {'a': 2, 'b': 1, 'c': 1}
    """
    total = sum(sizes.values())
    dealt = {name: count * size // total for name, size in sizes.items()}
    by_rest = sorted(sizes, key=lambda name: (-(count * sizes[name] % total), name))
    for name in by_rest[: count - sum(dealt.values())]:
        dealt[name] += 1
    return dealt


def drawn(root: Path, files: Mapping[str, Sequence[str]], count: int, seed: int) -> list[Mutant]:
    """Faults drawn at random, fewer than `count` where there are not so many.

    Within a package every line is as likely as another, and on a line every kind of fault.

    Parameters
    ----------
    root : Path
    files : mapping of package to paths from the root
    count, seed : int
    """
    random, found = Random(seed), []
    texts = {name: (root / name).read_text(encoding="utf-8") for names in files.values() for name in names}
    sizes = {package: sum(lines_of(texts[name]) for name in names) for package, names in files.items()}
    for package, number in shares(sizes, count).items():
        by_line: defaultdict[tuple[str, int], list[Mutant]] = defaultdict(list)
        for name in files[package]:
            for mutant in all_mutants(name, texts[name]):
                by_line[mutant.path, mutant.line].append(mutant)
        places = sorted(by_line)
        for place in random.sample(places, min(number, len(places))):
            kind = random.choice(sorted({one.kind for one in by_line[place]}))
            found += [random.choice([one for one in by_line[place] if one.kind == kind])]
    random.shuffle(found)
    return found


def all_mutants(path: str, source: str) -> list[Mutant]:
    """Every fault that can be planted in a file."""
    return python_mutants(path, source) if path.endswith(".py") else core_mutants(path, source)
