"""The notation of papers, ``L^2(Diamond^2)`` or ``UniRing(1,4)^3 x UniRing(1,8)``, as catalogue expressions.

Tables A.1 and A.3 of the dissertation: L for line graphs, ^ for Cartesian powers, x or □ for products, * for
degree expansions, and the names of its graphs. Any graph in it may be a call of the catalogue's language, as
in ``L^2(abelian_cayley("8",3,1))``: what the finder writes of graphs that papers have no name for is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from treadle.errors import FormatError

_TOKENS = re.compile(r"\s*(L(?=[\d^(])|[A-Za-zΠ]+|\d+|\^|\*|□|×|[(){},])")
_CALL = re.compile(r"\s*(?!x\()([a-z][a-z0-9_]*\()")
"""Start of a call; an x before a bracket is a product's."""
_PIECE = re.compile(r"\"[^\"]*\"|[()]|[^()\"]+")
"""Parts of a call: a string, a bracket, or what is between."""
_MOST_TOKENS = 400
_MOST_DEPTH = 16

_NAMES: Mapping[str, Callable[[list[int], list[int]], str]] = MappingProxyType(
    {
        "BiRing": lambda a, _: f"bi_ring({a[0]}, {a[1]})",
        "C": lambda a, s: f"circulant({a[0]}, {', '.join(map(str, s or a[1:]))})",
        "Circulant": lambda a, s: f"circulant({a[0]}, {', '.join(map(str, s or a[1:]))})",
        "DBJ": lambda a, _: f"de_bruijn({a[0]}, {a[1]})",
        "DBJMod": lambda a, _: f"modified_de_bruijn({a[0]}, {a[1]})",
        "DiC": lambda a, s: f"directed_circulant({a[0]}, {', '.join(map(str, s or a[1:]))})",
        "DiCirculant": lambda a, s: f"directed_circulant({a[0]}, {', '.join(map(str, s or a[1:]))})",
        "Diamond": lambda _, __: "diamond()",
        "DistReg": lambda a, _: f"distance_regular({a[0]}, {a[1]})",
        "H": lambda a, _: f"hamming({a[0]}, {a[1]})",
        "Hamming": lambda a, _: f"hamming({a[0]}, {a[1]})",
        "Jellyfish": lambda a, _: f"jellyfish({a[0]}, {a[1]})",
        "K": lambda a, _: f"complete({a[0]})" if len(a) == 1 else f"complete_bipartite({a[0]}, {a[1]})",
        "Kautz": lambda a, _: f"kautz({a[0]}, {a[1]})",
        "Pi": lambda a, _: f"generalized_kautz({a[0]}, {a[1]})",
        "Q": lambda a, _: f"hypercube({a[0]})",
        "Torus": lambda a, _: f"torus({', '.join(map(str, a))})",
        "UniRing": lambda a, _: f"uni_ring({a[0]}, {a[1]})",
        "Xpander": lambda a, _: f"xpander({a[0]}, {a[1]})",
        "Π": lambda a, _: f"generalized_kautz({a[0]}, {a[1]})",
    }
)


def notation_expression(text: str) -> str:
    """Return a graph in the notation of papers as an expression of the catalogue.

    Parameters
    ----------
    text : str

    Raises
    ------
    FormatError
        If it is no such notation.

    Examples
    --------
    >>> notation_expression("L^2(Diamond^2)")
    'line_graph(cartesian_power(diamond(), 2), 2)'
    >>> notation_expression("UniRing(1,4)^2 x BiRing(2,8)")
    'cartesian_product(uni_ring(1, 4), uni_ring(1, 4), bi_ring(2, 8))'
    >>> notation_expression('L(abelian_cayley("8",3,1))')
    'line_graph(abelian_cayley("8",3,1))'
    """
    return _Notation(text).integer()


class _Notation:
    """One text on its way to an expression."""

    def __init__(self, text: str) -> None:
        self._text = " ".join(text.split())[:80]
        self._words: list[str] = []
        place = 0
        while place < len(text.rstrip()) and len(self._words) < _MOST_TOKENS:
            call = _CALL.match(text, place)
            match = _TOKENS.match(text, place)
            if call is not None:
                place = self._call_end(text, call.end())
                self._words.append(text[call.start(1) : place])
            elif match is not None:
                self._words.append(match[1])
                place = match.end()
            else:
                raise self._error(f"{text[place : place + 10]!r} is not understood")
        if place < len(text.rstrip()):
            raise self._error(f"it has more than {_MOST_TOKENS} words and signs")
        if len(self._words) == 1 and self._words[0].endswith(")"):
            raise self._error("it is an expression")

    def _call_end(self, text: str, place: int) -> int:
        """Return the place behind the bracket that closes a call."""
        is_open = 1
        while is_open:
            piece = _PIECE.match(text, place)
            if piece is None:
                raise self._error("')' is missing")
            is_open += {"(": 1, ")": -1}.get(piece[0], 0)
            place = piece.end()
        return place

    def integer(self) -> str:
        found = self._product(0)
        if self._words:
            raise self._error(f"{self._words[0]!r} is too much")
        return found

    def _error(self, reason: str) -> FormatError:
        return FormatError(
            f"notation {self._text!r}: {reason}; expected one as in L^2(Diamond^2), K4,4*2 or "
            f"UniRing(1,4)^2 x BiRing(2,8)"
        )

    def _take(self, *wanted: str) -> bool:
        if self._words and self._words[0] in wanted:
            del self._words[0]
            return True
        return False

    def _need(self, wanted: str) -> None:
        if not self._take(wanted):
            raise self._error(f"{wanted!r} is missing")

    def _number(self) -> int:
        if not self._words or not self._words[0].isdigit() or len(self._words[0]) > 9:
            raise self._error("a number is missing")
        return int(self._words.pop(0))

    def _product(self, depth: int) -> str:
        """Factors with x between them; powers of factors are written out, so that all are of one product."""
        if depth > _MOST_DEPTH:
            raise self._error("brackets are nested too deep")
        factors = [self._power(depth)]
        while self._take("x", "□", "×"):
            factors.append(self._power(depth))
        if len(factors) == 1:
            graph, exponent = factors[0]
            return graph if exponent == 1 else f"cartesian_power({graph}, {exponent})"
        return f"cartesian_product({', '.join(graph for graph, times in factors for _ in range(times))})"

    def _power(self, depth: int) -> tuple[str, int]:
        graph, exponent = self._graph(depth), 1
        while self._words and self._words[0] in ("^", "*", "□"):
            if self._words[0] == "□" and not (len(self._words) > 1 and self._words[1].isdigit()):
                break
            if self._take("*"):
                graph = graph if exponent == 1 else f"cartesian_power({graph}, {exponent})"
                graph, exponent = f"degree_expansion({graph}, {self._number()})", 1
            else:
                del self._words[0]
                exponent *= self._number()
        if not 1 <= exponent <= 32:
            raise self._error(f"a power of {exponent}")
        return graph, exponent

    def _graph(self, depth: int) -> str:
        is_line_graph, times = self._take("L"), 1
        if is_line_graph and (self._take("^") or (self._words and self._words[0].isdigit())):
            times = self._number()
        if is_line_graph or (self._words and self._words[0] == "("):
            self._need("(")
            inner = self._product(depth + 1)
            self._need(")")
            call = f"line_graph({inner})" if times == 1 else f"line_graph({inner}, {times})"
            return call if is_line_graph else inner
        name = self._words.pop(0) if self._words else ""
        if len(name) > 1 and name.endswith(")"):
            return name
        if name not in _NAMES:
            raise self._error(f"no graph is called {name[:20]!r}" if name else "a graph is missing")
        numbers, offsets = self._arguments()
        try:
            return _NAMES[name](numbers, offsets)
        except IndexError:
            raise self._error(f"{name} lacks a number") from None

    def _arguments(self) -> tuple[list[int], list[int]]:
        """Return numbers in brackets or bare, as of K4,4 and Pi4,64; those in braces apart."""
        numbers: list[int] = []
        offsets: list[int] = []
        is_bracketed = self._take("(")
        while self._words and (self._words[0].isdigit() or self._words[0] == "{"):
            if self._take("{"):
                offsets.append(self._number())
                while self._take(","):
                    offsets.append(self._number())
                self._need("}")
            else:
                numbers.append(self._number())
            if not self._take(","):
                break
        if is_bracketed:
            self._need(")")
        return numbers, offsets
