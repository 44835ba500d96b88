"""Catalogue expressions such as ``subset(mi250(2), "0-7")``: the language that names any fabric."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from os.path import exists
from pathlib import Path
from types import MappingProxyType

from treadle.checking import checked
from treadle.errors import FormatError
from treadle.spelling import did_you_mean, similarly_spelt
from treadle.topologies.naming import MAX_NAME
from treadle.topologies.notations import notation_expression
from treadle.topologies.readers.imported import Imported, ImportOptions, spelt
from treadle.topologies.readers.reader import read_topology
from treadle.topologies.registry import call_signature, catalogue
from treadle.topologies.topology import Topology
from treadle.topologies.typed_quantities import quantity_parser

MAX_TEXT = 4096
"""Longest expression, in characters."""

_MAX_DEPTH = 16
_CATALOGUE = catalogue()
_NAME = r"[A-Za-z_]\w*(?:-\w+)*"
_CALL = re.compile(rf"{_NAME}\s*\(")
_COLON = re.compile(rf"({_NAME})(?::(.*))?", re.DOTALL)
_WORD = re.compile(rf"\"[^\"]*\"|'[^']*'|{_NAME}(?=\s*\()|\b[1-9]\d*(?:[xX×]\d+)+\b")
_PAPER = re.compile(r"[\^*□×{]| x ")
"""Characters of the papers' notation that expressions, except in strings, do not have."""

_TIMES = re.compile("[xX×]")
_HALF_A_PRODUCT = re.compile(r"(?<![\w.])\d+[xX×](?:\d+[xX×])*(?!\w)")
"""``4x`` and ``4x4x``."""
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")

_Value = Topology | int | bool | str
_TYPE_WORDS: Mapping[type, str] = MappingProxyType(
    {Topology: "a fabric", int: "an integer", bool: "True or False", str: "a quoted string"}
)


@checked()
def parse(text: str | Path, *, format: str | None = None, options: ImportOptions | None = None) -> Topology:
    """The fabric that `text` names: a catalogue expression, the notation of papers, or the path of a file.

    Parameters
    ----------
    text : str or Path
        ``torus(3,3,2)``, ``torus:3,3,2``, ``torus:3x3x2``, ``dgx-a100:2``, ``DGX_A100:2`` (case, dashes and
        underscores make no difference), nested calls such as
        ``with_failed_links(dgx_a100(2), "box0.nic1--ib1")``, or a path. Arguments are literals and catalogue
        calls; a bandwidth or latency is a string with a unit: ``bandwidth="25GB/s"``.
        ``L^2(Diamond^2)`` and the like are read as papers write graphs (`notations`).
        A catalogue name wins over a file of that name; write ``./name`` for the file. Spelt otherwise than
        in the catalogue, it gives way to a file. A Path is always a file.
    format : str, optional
        Reads `text` as the path of a file in that format (`readers.reader`), whatever it looks like.
    options : ImportOptions, optional
        Facts that a third-party file does not give.

    Returns
    -------
    Topology
        Named after the expression, or as its file says.

    Raises
    ------
    FormatError
        If the string is neither, with its column, or the file cannot be read.
    TopologyError
        If a catalogue function rejects its arguments.

    Examples
    --------
    >>> import treadle
    >>> treadle.parse("dgx-a100:2")
    <Topology dgx_a100(2): 16 compute, 20 switches, 96 links>
    """
    return parse_imported(format_path(text), format=format, options=options).topology


def format_path(text: str | Path) -> str:
    """Return the string that names a file, for a Path one that is not a catalogue name."""
    return f"./{text}" if isinstance(text, Path) and text.parent == Path() else str(text)


def parse_imported(text: str, *, format: str | None = None, options: ImportOptions | None = None) -> Imported:
    """Return the fabric that `text` names, as `parse` takes it, and what its file has and lacks."""
    if format is not None:
        return read_topology(text, format=format, options=options)
    expression = _as_expression(text)
    if (_PAPER.search(text) or not names_fabric(text)) and not exists(text):
        with contextlib.suppress(FormatError):  # what is no notation either is told as a path or a name
            expression = notation_expression(text)
    if expression is not None:
        if options is not None and options.given():
            raise FormatError(f"{spelt(options.given()[0])} is for files; {text[:80]!r} is of the catalogue")
        if len(expression) > MAX_TEXT:
            raise FormatError(f"expression of {len(expression)} characters; at most {MAX_TEXT} are read")
        return Imported(_Evaluation(expression).run(), "catalogue")
    if not text.strip():
        raise FormatError("topology: expected a catalogue expression or a file, found nothing")
    if not exists(text):
        shown = text if len(text) <= 80 else f"{text[:80]}..."
        hint = did_you_mean(text.partition(":")[0].strip(), _CATALOGUE)
        reason = f"neither a file nor a catalogue name{hint} ('treadle topology list' shows the catalogue)"
        raise FormatError(f"topology {shown!r}: {reason}")
    return read_topology(text, options=options)


def _as_expression(text: str) -> str | None:
    """Return `text` as a call with underscores, columns unchanged; None if it should be a path."""
    stripped = text.strip()
    if _CALL.match(stripped):
        return _WORD.sub(_as_meant, text)
    colon = _COLON.fullmatch(stripped)
    if colon is None:
        return None
    name = _catalogue_name(colon[1])
    if name not in _CATALOGUE or (name != colon[1].replace("-", "_") and exists(text)):
        return None
    return f"{name}({_WORD.sub(_as_meant, colon[2] or '')})"


def names_fabric(text: str) -> bool:
    """Whether a string is a catalogue expression, not the path of a file."""
    expression = _as_expression(text)
    return expression is not None and _catalogue_name(expression.strip().partition("(")[0]) in _CATALOGUE


def _as_meant(match: re.Match[str]) -> str:
    """Return a function's name as the catalogue has it, ``4x4`` as two numbers; a quoted string as it is."""
    word = match[0]
    if word[0] in "\"'":
        return word
    return _TIMES.sub(",", word) if word[0].isdigit() else _catalogue_name(word)


def _catalogue_name(word: str) -> str:
    """Resolve a name in any case, with dashes or underscores; itself if unknown."""
    name = word.strip().replace("-", "_")
    return name if name in _CATALOGUE else similarly_spelt(name, _CATALOGUE) or name


def _missing_argument(
    name: str, signature: inspect.Signature, values: Sequence[_Value], keywords: Mapping[str, _Value]
) -> str | None:
    """Return the first missing argument of a call, with an example if that is plain; None without one."""
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    positional = [one for one in signature.parameters.values() if one.kind is plain]
    required = [one for one in positional if one.default is one.empty]
    missing = [one.name for one in positional[len(values) :] if one in required and one.name not in keywords]
    example = f", as in {name}:2" if [one.annotation for one in required] == ["int"] else ""
    return f"{missing[0]}{example}" if missing else None


class _TrueAndFalse(ast.NodeTransformer):
    """Reads ``true`` and ``false``, as shells and JSON write them, like Python's."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_bool = node.id in ("true", "false")
        return ast.copy_location(ast.Constant(node.id == "true"), node) if is_bool else node


class _Evaluation:
    """One expression on its way to a fabric; every error names the column."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._source = " ".join((text if len(text) <= 80 else f"{text[:80]}...").split())
        self._offset = len(text) - len(text.lstrip())

    def run(self) -> Topology:
        tree = self._tree()
        topology = self._call(tree, 1)
        if len(self._text) > MAX_NAME:
            return topology
        # one spelling of the expression, whatever blanks and quotes the user typed
        name = ast.unparse(tree)
        return topology.renamed(name if '"' in name or "\\" in name else name.replace("'", '"'))

    def _tree(self) -> ast.expr:
        # brackets in strings count too, which only makes the limit tighter
        steps = ((character in "([{") - (character in ")]}") for character in self._text)
        if max(accumulate(steps), default=0) > _MAX_DEPTH:
            raise self._error(f"brackets are nested more than {_MAX_DEPTH} deep", None)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of odd literals, which are refused below
                tree: ast.expr = _TrueAndFalse().visit(ast.parse(self._text.strip(), mode="eval").body)
                return tree
        except SyntaxError as error:
            reason, column = error.msg or "not an expression", self._offset + (error.offset or 1)
            expected = "name(argument, ...)"
            without_strings = _QUOTED.sub(lambda match: " " * len(match[0]), self._text)
            if (half := _HALF_A_PRODUCT.search(without_strings)) is not None:
                reason, column = f"{half[0]!r} lacks a number beside its x", half.start() + 1
                expected = "one on both sides, as in 4x4"
            elif "literal" in reason:
                reason = "a number and a word run together"
            raise self._error(f"{reason}; expected {expected}", column) from None
        except (ValueError, RecursionError, MemoryError):
            raise self._error("not an expression; expected name(argument, ...)", None) from None

    def _error(self, message: str, place: ast.AST | int | None) -> FormatError:
        if isinstance(place, ast.AST):
            line = self._text.strip().splitlines()[getattr(place, "lineno", 1) - 1]
            bytes_before = line.encode()[: getattr(place, "col_offset", 0)]
            place = self._offset + len(bytes_before.decode(errors="replace")) + 1
        return FormatError(message, source=self._source, line=None if place is None else 1, column=place)

    def _call(self, node: ast.expr, depth: int) -> Topology:
        if isinstance(node, ast.Name) and node.id in _CATALOGUE:
            call = call_signature(_CATALOGUE[node.id])
            raise self._error(f"{node.id} is a catalogue name; write {call}", node)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise self._error("expected a catalogue call such as torus(3, 3)", node)
        if depth > _MAX_DEPTH:
            raise self._error(f"calls are nested more than {_MAX_DEPTH} deep", node)
        name = node.func.id
        if name not in _CATALOGUE:
            raise self._error(
                f"no catalogue function is called {name!r}{did_you_mean(name, _CATALOGUE)}", node
            )
        function = _CATALOGUE[name]
        keywords: dict[str, _Value] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self._error("'**' is not allowed; expected keyword=value", keyword.value)
            if keyword.arg in keywords:
                raise self._error(f"keyword {keyword.arg!r} is given twice", keyword.value)
            keywords[keyword.arg] = self._keyword(function, keyword.arg, keyword.value, depth)
        values = [self._value(argument, depth) for argument in node.args]
        self._check(function, node, values, keywords)
        return function(*values, **keywords)

    def _keyword(self, function: Callable[..., Topology], key: str, node: ast.expr, depth: int) -> _Value:
        """Return the value of a keyword; quantities are typed with a unit."""
        parameters = inspect.signature(function).parameters
        if key not in parameters or parameters[key].kind is inspect.Parameter.VAR_POSITIONAL:
            message = f"{function.__name__} has no keyword {key!r}; expected {call_signature(function)}"
            raise self._error(message, node)
        value = self._value(node, depth)
        if (parse_quantity := quantity_parser(key)) is None:
            return value
        if not isinstance(value, str):
            example = "10us" if key == "latency" else "25GB/s"
            raise self._error(f'{key} needs a unit; write for instance {key}="{example}"', node)
        try:
            return parse_quantity(value)
        except FormatError as error:
            raise self._error(str(error), node) from None

    def _value(self, node: ast.expr, depth: int) -> _Value:
        if isinstance(node, ast.Call):
            return self._call(node, depth + 1)
        is_negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        literal = node.operand if isinstance(node, ast.UnaryOp) and is_negative else node
        value = literal.value if isinstance(literal, ast.Constant) else None
        if isinstance(value, int) and not isinstance(value, bool):
            if abs(value) >= 2**63:
                raise self._error("integer is too large", node)
            return -value if is_negative else value
        if isinstance(value, bool | str) and not is_negative:
            return value
        if isinstance(node, ast.Name) and node.id in _CATALOGUE:
            return self._call(node, depth)
        raise self._error("expected an integer, a quoted string, True, False or a catalogue call", node)

    def _check(
        self,
        function: Callable[..., Topology],
        node: ast.Call,
        values: list[_Value],
        keywords: dict[str, _Value],
    ) -> None:
        """Number, names and types of the arguments against the function's signature."""
        signature = inspect.signature(function)
        try:
            bound = signature.bind(*values, **keywords)
        except TypeError as error:
            missing = _missing_argument(function.__name__, signature, values, keywords)
            reason = f": {error}" if missing is None else f" lacks {missing}"
            message = f"{function.__name__}{reason}; expected {call_signature(function)}"
            raise self._error(message, node) from None
        types = typing.get_type_hints(function)
        for key, given in bound.arguments.items():
            several = signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL
            for value in given if several else (given,):
                # bool is a subclass of int, but True is no number of boxes.
                wrong_bool = isinstance(value, bool) and types[key] is not bool
                if wrong_bool or not isinstance(value, types[key]):
                    wanted = _TYPE_WORDS.get(types[key], "an integer or a quoted string")
                    found = str(value) if isinstance(value, bool) else _TYPE_WORDS[type(value)]
                    message = f"{function.__name__}: {key} must be {wanted}, found {found}"
                    raise self._error(message, node)
