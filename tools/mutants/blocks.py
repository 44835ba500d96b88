"""Which blocks of code a test runs: a copy of the package that counts, and the blocks by their lines.

Every function, and every branch of an `if`, loop or `with`, is a block and has a number; its first statement
becomes a store into an array of bytes. That costs a few per cent, where a tracer costs as much as the tests.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

COUNTER = "_treadle_hits"
"""Name of the module that holds the array, beside the package."""

_MODULE = '''"""Which blocks have been run; see tools.mutants.blocks. A process adds its own when it ends."""

import atexit
import os
import tempfile

HITS = bytearray({size})


def take():
    """Numbers of the blocks that were run since the last call."""
    found = [number for number, value in enumerate(HITS) if value]
    HITS[:] = bytes(len(HITS))
    return found


def _leave():
    folder, found = os.environ.get("MUTANT_HITS"), take()
    if folder and found:
        descriptor, _ = tempfile.mkstemp(dir=folder, prefix="child-")
        with os.fdopen(descriptor, "w") as file:
            file.write(" ".join(map(str, found)))


_exit = os._exit


def _left_at_once(status):
    """What a process that was forked ends with."""
    _leave()
    _exit(status)


atexit.register(_leave)
os._exit = _left_at_once
'''


@dataclass(frozen=True)
class Block:
    """Lines of a file that are run together, but for the blocks within.

    Parameters
    ----------
    path : str
        From the root of the tree.
    first, last : int
    """

    path: str
    first: int
    last: int


class _Instrumenter(ast.NodeTransformer):
    """Puts a store at the start of every block."""

    def __init__(self, path: str, first_number: int) -> None:
        self.path, self.first_number = path, first_number
        self.blocks: list[Block] = []

    def _marked(self, body: list[ast.stmt]) -> list[ast.stmt]:
        if not body:
            return body
        number = self.first_number + len(self.blocks)
        last = max(statement.end_lineno or statement.lineno for statement in body)
        self.blocks.append(Block(self.path, body[0].lineno, last))
        store = ast.parse(f"{COUNTER}[{number}] = 1").body[0]
        has_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        inner = [self.visit(statement) for statement in body]
        return [*inner[:has_text], ast.copy_location(store, body[0]), *inner[has_text:]]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = self._marked(node.body)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        node.body, node.orelse = self._marked(node.body), self._marked(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        node.body, node.orelse = self._marked(node.body), self._marked(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        node.body, node.orelse = self._marked(node.body), self._marked(node.orelse)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.body = self._marked(node.body)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.body = self._marked(node.body)
        return node


def instrument(files: Sequence[str], root: Path, counter_folder: Path) -> list[Block]:
    """Rewrite files in place so that they count, and write the module that holds the counts.

    Parameters
    ----------
    files : sequence of str
        Paths from the root.
    root : Path
    counter_folder : Path
        A folder from which the tests import.

    Returns
    -------
    list of Block
        By their numbers.
    """
    blocks: list[Block] = []
    for name in files:
        path = root / name
        tree = ast.parse(path.read_text(encoding="utf-8"))
        marker = _Instrumenter(name, len(blocks))
        tree = marker.visit(tree)
        blocks += marker.blocks
        place = _after_head(tree)
        tree.body[place:place] = ast.parse(f"from {COUNTER} import HITS as {COUNTER}").body
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
    (counter_folder / f"{COUNTER}.py").write_text(_MODULE.format(size=len(blocks)), encoding="utf-8")
    return blocks


def _after_head(tree: ast.Module) -> int:
    """Where a module's first statement may stand: after its docstring and imports from the future."""
    place = 0
    for number, statement in enumerate(tree.body):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not (is_text or is_future):
            break
        place = number + 1
    return place


def block_of(blocks: Sequence[Block], path: str, line: int) -> int | None:
    """Number of the innermost block that has a line; None for what runs when a module is imported."""
    inside = [
        (block.last - block.first, -number)
        for number, block in enumerate(blocks)
        if block.path == path and block.first <= line <= block.last
    ]
    return -min(inside)[1] if inside else None
