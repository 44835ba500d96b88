"""Count code lines by package: lines that hold a token other than a docstring, an import or a comment.

C++ and C are counted without blank lines and comments.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
_NATIVE = (".cpp", ".hpp", ".c", ".h", ".cu", ".cuh")


def code_lines(path: Path) -> int:
    """Return the number of code lines of a Python file."""
    text = path.read_text(encoding="utf-8")
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:  # docstrings, and strings that document fields
                value = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    skipped.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - skipped)


def native_lines(path: Path) -> int:
    """Return the number of code lines of a C or C++ file."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


@cache
def tracked(root: Path, folder: str) -> list[Path]:
    """Return the files of a folder that git tracks; without git, all of them."""
    done = subprocess.run(
        ["git", "ls-files", "-z", folder], cwd=root, capture_output=True, text=True, check=False
    )
    names = [name for name in done.stdout.split("\0") if name]
    found = [path for name in names if (path := root / name).exists()]
    return found or [path for path in (root / folder).rglob("*") if path.is_file()]


@cache
def package_sizes(root: Path) -> Counter[str]:
    """Return the code lines of each package below ``src/treadle``; ``top`` has the modules beside them."""
    package, found = root / "src" / "treadle", Counter[str]()
    for path in tracked(root, "src/treadle"):
        if path.suffix == ".py":
            parts = path.relative_to(package).parts
            found[parts[0] if len(parts) > 1 else "top"] += code_lines(path)
    return found


def sizes(root: Path) -> dict[str, int]:
    """Return the totals that `budget.toml` limits."""
    native = (path for path in tracked(root, "src") if path.suffix in _NATIVE)
    tests = (path for path in tracked(root, "tests") if path.suffix == ".py")
    pages = (path for path in tracked(root, "docs") if path.suffix == ".md")
    return {
        "python": sum(package_sizes(root).values()),
        "native": sum(map(native_lines, native)),
        "tests": sum(map(code_lines, tests)),
        "words": sum(len(path.read_text(encoding="utf-8").split()) for path in pages),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path, nargs="?", default=Path())
    root = parser.parse_args().root
    for package, lines in package_sizes(root).most_common():
        print(f"{lines:9,d}  {package}")
    for what, lines in sizes(root).items():
        print(f"{lines:9,d}  {what} in all")


if __name__ == "__main__":
    main()
