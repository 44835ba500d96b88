"""Faults that can be planted in a Python file: edits of its text, found in its syntax tree."""

from __future__ import annotations

import ast
import io
import tokenize
from contextlib import suppress

from .mutant import Mutant

_COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("+", "//"),
    ast.Div: ("*",),
    ast.FloorDiv: ("*", "%"),
    ast.Mod: ("//",),
    ast.Pow: ("*",),
    ast.LShift: (">>",),
    ast.RShift: ("<<",),
    ast.BitAnd: ("|",),
    ast.BitOr: ("&",),
    ast.BitXor: ("|",),
    ast.MatMult: ("*",),
}
_WORDS: dict[type[ast.AST], str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"},
    **{ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="},
    **{ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not"},
    **{ast.Pow: "**", ast.MatMult: "@"},
}
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "cumsum": "array",
          "argmin": "argmax", "argmax": "argmin", "floor": "ceil", "ceil": "floor", "minimum": "maximum",
          "maximum": "minimum", "append": "remove", "zeros": "ones", "ones": "zeros"}  # fmt: skip
_QUIET = {"announce", "progress", "stage", "warn", "process_time", "monotonic", "perf_counter"}
"""Calls that tell of progress or time: nothing that tests should look at."""
_SYMMETRIC = {"min", "max", "minimum", "maximum", "array_equal", "gcd", "lcm", "logical_and", "logical_or",
              "logical_xor", "cast", "isinstance", "getattr"}  # fmt: skip
"""Calls whose arguments may change places, or (the last three) may do so for nobody's use."""


def python_mutants(path: str, source: str) -> list[Mutant]:
    """Every fault that can be planted in a file, in the order of places.

    Left out are docstrings, annotations, messages of exceptions, assertions, and what type checkers or
    `repr` alone read.

    Parameters
    ----------
    path : str
        For the mutants.
    source : str
    """
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    unique = {(one.start, one.end, one.replacement): one for one in finder.found}
    return sorted(unique.values(), key=lambda one: (one.start, one.end, one.replacement))


class _Finder(ast.NodeVisitor):
    """Collects edits; `visit` methods leave out what is not to be changed."""

    def __init__(self, path: str, source: str) -> None:
        self._path, self._source = path, source
        self.found: list[Mutant] = []
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._texts = source.splitlines()

    # places

    def _at(self, line: int, column: int) -> int:
        """Characters before a place that the syntax tree gives in bytes of UTF-8."""
        text = self._texts[line - 1] if line <= len(self._texts) else ""
        return self._lines[line - 1] + len(text.encode()[:column].decode())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _add(self, span: tuple[int, int], text: str, kind: str) -> None:
        line = self._source.count("\n", 0, span[0]) + 1
        self.found.append(Mutant(self._path, line, *span, text, kind))

    def _text(self, node: ast.expr | ast.stmt) -> str:
        low, high = self._span(node)
        return self._source[low:high]

    def _between(self, low: int, high: int, words: str) -> tuple[int, int] | None:
        """Where an operator of these words stands between two operands."""
        part = self._source[low:high]
        if part.strip() == words:  # nearly always: no brackets or comments between the operands
            first = low + part.index(words)
            return first, first + len(words)
        wanted = words.split()
        tokens = []
        with suppress(tokenize.TokenError, IndentationError):  # brackets that are closed elsewhere
            for token in tokenize.generate_tokens(io.StringIO(f"({part}\n)").readline):
                tokens.append(token)  # noqa: PERF402 (those before the error are wanted)
        starts = [0]
        for line in f"({part}\n)".splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        for place in range(len(tokens) - len(wanted) + 1):
            if [token.string for token in tokens[place : place + len(wanted)]] == wanted:
                one, other = tokens[place], tokens[place + len(wanted) - 1]
                first = starts[one.start[0] - 1] + one.start[1] - 1
                past = starts[other.end[0] - 1] + other.end[1] - 1
                return low + first, low + past
        return None

    # what is left out

    def _body(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) -> None:
        for statement in node.body:
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_text:
                self.visit(statement)

    def visit_Module(self, node: ast.Module) -> None:
        self._body(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._body(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in ("__repr__", "__str__"):
            return
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._body(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Our own logic is guarded twice where an assertion and a test look at it."""

    def visit_Import(self, node: ast.Import) -> None:
        """Nothing to change."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Nothing to change."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Words for people."""

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(self._span(node), "pass", "no raise")

    # what is changed

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for place, operator in enumerate(node.ops):
            words = _WORDS[type(operator)]
            gap = self._between(self._span(operands[place])[1], self._span(operands[place + 1])[0], words)
            for other in _COMPARISONS[type(operator)] if gap is not None else ():
                assert gap is not None
                self._add(gap, other, "comparison")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(
            isinstance(side, ast.JoinedStr | ast.Constant) and _is_text(side)
            for side in (node.left, node.right)
        ):
            gap = self._between(self._span(node.left)[1], self._span(node.right)[0], _WORDS[type(node.op)])
            for other in _ARITHMETIC[type(node.op)] if gap is not None else ():
                assert gap is not None
                self._add(gap, other, "arithmetic")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        words = f"{_WORDS[type(node.op)]}="
        gap = self._between(self._span(node.target)[1], self._span(node.value)[0], words)
        if gap is not None:
            for other in _ARITHMETIC[type(node.op)]:
                self._add(gap, f"{other}=", "arithmetic")
            self._add(gap, "=", "assignment")
        self._add(self._span(node), "pass", "no statement")
        self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            self._add(self._span(node), f"({self._text(node.operand)})", "sign")
        if not isinstance(node.operand, ast.Constant):
            self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for one, following in zip(node.values, node.values[1:], strict=False):
            gap = self._between(self._span(one)[1], self._span(following)[0], word)
            if gap is not None:
                self._add(gap, other, "logic")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(self._span(node), str(not node.value), "constant")
        elif isinstance(node.value, int):
            self._add(self._span(node), str(node.value + 1), "constant")
            if node.value:
                self._add(self._span(node), str(node.value - 1), "constant")
        elif isinstance(node.value, float) and node.value:
            self._add(self._span(node), f"({node.value!r} * 2)", "constant")

    def _condition(self, test: ast.expr) -> None:
        if isinstance(test, ast.Name) and test.id == "TYPE_CHECKING":
            return
        if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            self._add(self._span(test), f"(not ({self._text(test)}))", "condition")

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.orelse:
                self.visit(statement)
            return
        self._condition(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        swapped = f"{self._text(node.orelse)} if {self._text(node.test)} else {self._text(node.body)}"
        self._add(self._span(node), f"({swapped})", "condition")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(self._span(node), "break", "loop")

    def visit_Break(self, node: ast.Break) -> None:
        self._add(self._span(node), "continue", "loop")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and not _is_quiet(node.value):
            self._add(self._span(node), "pass", "no statement")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _is_quiet(node):
            return
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _TWINS:
            end = self._span(node.func)[1]
            self._add((end - len(name), end), _TWINS[name], "function")
        if len(node.args) >= 2 and not any(isinstance(one, ast.Starred) for one in node.args[:2]):
            low, high = self._span(node.args[0])[0], self._span(node.args[1])[1]
            first, second = (self._text(one) for one in node.args[:2])
            middle = self._source[self._span(node.args[0])[1] : self._span(node.args[1])[0]]
            if first != second and name not in _SYMMETRIC:
                self._add((low, high), f"{second}{middle}{first}", "arguments")
        if isinstance(node.func, ast.Name) and node.func.id in ("cast", "TypeVar"):
            return
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":  # of zip, over what is of one length: told apart by a bug only
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.visit(node.value)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_quiet(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in _QUIET
