"""The library of searched Cayley digraphs: package data, every entry can be checked from scratch."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from typing import Any, ClassVar, TypeVar

from treadle.errors import FormatError
from treadle.finder.searches.cayley_value import cayley_value
from treadle.topologies.catalogue.cayley import cayley_graph

VERSION = 1


@dataclass(frozen=True)
class LibraryEntry:
    """One graph that no other of its size, degree and kind dominates.

    Parameters
    ----------
    degree, nodes : int
        d and N.
    bidirectional : bool
        Whether every link has its opposite.
    expression : str
        Catalogue expression.
    t_l : int
        Steps, either direction.
    t_b : Fraction
        M/B, the larger of allgather and reduce-scatter.
    command : str
        What found it.
    """

    degree: int
    nodes: int
    bidirectional: bool
    expression: str
    t_l: int
    t_b: Fraction
    command: str = ""


@dataclass(frozen=True)
class LineGraphEntry:
    """A line graph of a Cayley digraph, scheduled by breadth-first broadcast.

    Parameters
    ----------
    degree, nodes : int
        d and N, of the line graph.
    power : int
        n of L^n.
    base : str
        Catalogue expression of the Cayley digraph.
    t_l : int
        Steps, either direction.
    gather_t_b, reduce_t_b : Fraction
        Of the allgather and of the reduce-scatter, M/B.
    command : str
        What found it.
    """

    degree: int
    nodes: int
    power: int
    base: str
    t_l: int
    gather_t_b: Fraction
    reduce_t_b: Fraction
    command: str = ""
    bidirectional: ClassVar[bool] = False

    @property
    def expression(self) -> str:
        """Catalogue expression of the line graph."""
        return f"line_graph({self.base}{'' if self.power == 1 else f', {self.power}'})"

    @property
    def t_b(self) -> Fraction:
        """The larger of the two T_B, in M/B."""
        return max(self.gather_t_b, self.reduce_t_b)


Entry = TypeVar("Entry", LibraryEntry, LineGraphEntry)


def pareto_entries(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the entries that none of the same degree, size and kind dominates; of equals the shortest.

    A bidirectional entry competes with the unidirectional ones too: a digraph stays only if it beats it.
    """

    def key(e: Entry) -> tuple[object, ...]:
        links, name = not e.bidirectional, (len(e.expression), e.expression, e.command)
        return e.degree, e.nodes, e.t_l, e.t_b, links, name

    kept: list[Entry] = []
    for entry in sorted(entries, key=key):
        if not any(
            (other.degree, other.nodes) == (entry.degree, entry.nodes)
            and (other.bidirectional or not entry.bidirectional)
            and other.t_b <= entry.t_b  # and no more steps: those come first
            for other in kept
        ):
            kept.append(entry)
    return tuple(kept)


def load_library() -> tuple[LibraryEntry, ...]:
    """Return all entries, by degree, size and T_L; `check_entry` recomputes one."""
    return read_entries(library_contents("cayley_library.json"), source="cayley_library.json")


def library_contents(file: str) -> str:
    """Return the contents of a data file of the package, decompressed."""
    data = files("treadle.finder").joinpath("data", file).read_bytes()
    return (gzip.decompress(data) if file.endswith(".gz") else data).decode("utf-8")


def table_lines(text: str, head: str) -> tuple[list[str], list[str]]:
    """Return the commands that made a table and its other lines; FormatError if it has another heading."""
    first, _, body = text.partition("\n")
    if first != head:
        raise FormatError(f"expected {head!r} in the first line, found {first[:40]!r}")
    lines = body.splitlines()
    commands = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    return commands, [line for line in lines if not line.startswith("# ")]


def check_entry(entry: LibraryEntry) -> None:
    """Rebuild the graph and recompute size, degree, kind, T_L and T_B of both directions.

    Raises
    ------
    FormatError
        If anything differs from the entry.
    TopologyError
        If the expression is not a Cayley digraph.
    """
    graph = cayley_graph(entry.expression)
    value = cayley_value(graph)
    found = (graph.n_nodes, graph.degree, graph.is_bidirectional, value.t_l, value.t_b)
    stated = (entry.nodes, entry.degree, entry.bidirectional, entry.t_l, entry.t_b)
    check_stated(entry.expression, ("nodes", "degree", "bidirectional", "T_L", "T_B"), found, stated)


def check_stated(
    expression: str, names: Sequence[str], found: Sequence[object], stated: Sequence[object]
) -> None:
    """Raise FormatError unless the values found are as a library states them."""
    for name, ours, theirs in zip(names, found, stated, strict=True):
        if ours != theirs:
            raise FormatError(f"{name} of {expression} is {ours}, the library states {theirs}")


def read_entries(text: str, *, source: str = "") -> tuple[LibraryEntry, ...]:
    """Return the entries of a library's JSON.

    Raises
    ------
    FormatError
        If the string is not a library of this version.
    """

    def entry(row: list[Any], command: str) -> LibraryEntry:
        d, n, both, t_l, t_b, name = row
        return LibraryEntry(int(d), int(n), bool(both), str(name), int(t_l), Fraction(t_b), command)

    return read_library(text, "cayley_library", "Cayley library", entry, source)


def read_library(
    text: str, name: str, words: str, entry: Callable[[list[Any], str], Entry], source: str
) -> tuple[Entry, ...]:
    """Parse a library's JSON: rows, and the commands that found them; FormatError if malformed."""
    try:
        data: Any = json.loads(text)
        if data["treadle"] != name or data["version"] != VERSION:
            raise FormatError(f"expected a {words} of version {VERSION}", source=source)
        return tuple(entry(row, str(data["commands"][made])) for *row, made in data["entries"])
    except FormatError:
        raise
    except (KeyError, TypeError, IndexError, ZeroDivisionError, RecursionError, ValueError) as error:
        raise FormatError(f"malformed {words} ({error})", source=source) from None
