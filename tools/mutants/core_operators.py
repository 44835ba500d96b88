"""Faults that can be planted in the compiled core: edits of single tokens of C++."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .mutant import Mutant

_TOKEN = re.compile(
    r"""
    (?P<skip>//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  | (?P<number>\b(?:0x[0-9a-fA-F]+|\d[\d']*(?:\.\d+)?(?:[eE][+-]?\d+)?)[uUlLfF]*\b)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<mark><<=|>>=|<=>|->|\+\+|--|\+=|-=|\*=|/=|%=|<=|>=|==|!=|&&|\|\||<<|>>|::|[^\s\w])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_MARKS = {
    **{"<=": ("<",), ">=": (">",), "==": ("!=",), "!=": ("==",), "&&": ("||",), "||": ("&&",)},
    **{"+=": ("-=",), "-=": ("+=",), "++": ("--",), "--": ("++",), "*=": ("/=",)},
}
_SPACED = {
    **{"<": ("<=", ">="), ">": (">=", "<="), "+": ("-",), "-": ("+",)},
    **{"*": ("+", "/"), "/": ("*",), "%": ("/",)},
}
"""Operators when blanks stand on both sides; without them they may belong to types."""

_WORDS = {
    **{"min": "max", "max": "min", "true": "false", "false": "true"},
    **{"continue": "break", "break": "continue"},
}


def core_mutants(path: str, source: str) -> list[Mutant]:
    """Every fault that can be planted in a file of the core, in the order of places.

    Parameters
    ----------
    path : str
        For the mutants.
    source : str
    """
    found = []
    for start, end, other, kind in _edits(source):
        found.append(Mutant(path, source.count("\n", 0, start) + 1, start, end, other, kind))
    return found


def _edits(source: str) -> Iterator[tuple[int, int, str, str]]:
    for match in _TOKEN.finditer(source):
        text, (start, end) = match[0], match.span()
        if match["number"] and text.isdigit():
            # dimensions of arrays and the like are constants too; what does not compile is left out later
            yield start, end, str(int(text) + 1), "constant"
            if int(text):
                yield start, end, str(int(text) - 1), "constant"
        elif match["word"] and text in _WORDS:
            yield start, end, _WORDS[text], "constant" if text in ("true", "false") else "word"
        elif match["mark"]:
            is_spaced = source[start - 1 : start].isspace() and source[end : end + 1].isspace()
            others = _MARKS.get(text) or (_SPACED.get(text, ()) if is_spaced else ())
            for other in others:
                yield start, end, other, "operator"
