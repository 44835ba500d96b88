"""Compare installed with planned cables, and find the fewest plugs to move.

Planned cables match ports, and so do those that were seen: together they form paths and cycles of ports, on
which the two kinds take turns. A cable that is seen and not planned has at least one end wrong. On a cycle
of k such cables k moves do: each leaves one end where it is and brings the other to the next port. On a path
with p planned and o seen cables min(o, p) moves do; beyond these p - o cables are to be laid, or o - p taken
out. No fewer can: every seen cable that is not planned moves a plug or goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from treadle.brief import brief
from treadle.checking import checked
from treadle.errors import FormatError
from treadle.finder.building.observed_cables import Plug, SeenCable, read_cables
from treadle.tabular import Cell, Tabular, plain_row

Side = tuple[str, int, str]
"""Node, port, and for unidirectional links the side: sends or receives."""


class CableFault(StrEnum):
    """Fault of a planned cable: missing, swapped with another, or elsewhere."""

    MISSING = "missing"
    SWAPPED = "swapped"
    WRONG = "wrong"
    SURPLUS = "surplus"


class PlugAction(StrEnum):
    """Fix of the fault."""

    MOVE = "move"
    LAY = "lay"
    TAKE_OUT = "take out"


@dataclass(frozen=True)
class Replugging:
    """One thing to do.

    Parameters
    ----------
    fault : CableFault
    action : PlugAction
    at : Plug
        Where the plug is now; of a cable to lay, one of its ends.
    to : Plug, optional
        Where it goes; the other end of a cable to lay or to take out.
    stays : Plug, optional
        Of a move: the cable's other end, which is not touched.
    is_held : bool
        The port it goes to is taken until another plug has moved: pull that one first.
    """

    fault: CableFault
    action: PlugAction
    at: Plug
    to: Plug
    stays: Plug | None = None
    is_held: bool = False


@brief("n_planned", "n_right", "n_moves", "n_missing", "n_surplus")
@dataclass(frozen=True)
class CablingReport(Tabular):
    """Moves to be done.

    Parameters
    ----------
    n_planned, n_seen, n_right : int
        Cables planned, seen, and seen as planned.
    steps : tuple of Replugging
        Fewest, in an order that works.
    doubts : tuple of str
        What the two ends of a cable say of each other that does not agree.
    kind : str
        Of the file of what was seen.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> sheet = treadle.cabling("ring:3").sheet.csv().splitlines(keepends=True)
    >>> _ = Path("planned.csv").write_text("".join(sheet))
    >>> _ = Path("seen.csv").write_text("".join(sheet[:-1]))
    >>> found = treadle.check_cabling("planned.csv", "seen.csv")
    >>> found.n_planned, found.n_right, found.n_missing
    (3, 2, 1)
    """

    n_planned: int
    n_seen: int
    n_right: int
    steps: tuple[Replugging, ...]
    doubts: tuple[str, ...]
    kind: str

    @property
    def n_moves(self) -> int:
        """Plugs to move."""
        return sum(step.action is PlugAction.MOVE for step in self.steps)

    @property
    def n_missing(self) -> int:
        """Cables to lay."""
        return sum(step.action is PlugAction.LAY for step in self.steps)

    @property
    def n_surplus(self) -> int:
        """Cables to take out."""
        return sum(step.action is PlugAction.TAKE_OUT for step in self.steps)

    def records(self) -> list[dict[str, Cell]]:
        """Return a row for each thing to do."""
        return [
            plain_row(
                {
                    "fault": str(step.fault),
                    "action": str(step.action),
                    "at": format_plug(step.at),
                    "to": format_plug(step.to),
                    "stays": None if step.stays is None else format_plug(step.stays),
                    "is_held": step.is_held,
                }
            )
            for step in self.steps
        ]


def format_plug(plug: Plug) -> str:
    """Format a plug.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.format_plug(("n0", 3))
    'n0 port 3'
    """
    return f"{plug[0]} port {plug[1]}"


@checked()
def check_cabling(planned: str | Path, observed: str | Path, *, host: str | None = None) -> CablingReport:
    """Hold what was plugged against a cabling list, and find the fewest plugs to move.

    Parameters
    ----------
    planned : str or Path
        A list of `cabling` or `design` (CSV).
    observed : str or Path
        CSV, ``lldpctl -f keyvalue`` or ibnetdiscover; see `read_cables`.
    host : str, optional
        Whose ``lldpctl`` it is. Only cables at that host are looked at then.

    Raises
    ------
    FormatError
        With file and line, for what is malformed or plugs a port twice.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> sheet = treadle.cabling("ring:3").sheet.csv()
    >>> _ = Path("planned.csv").write_text(sheet)
    >>> _ = Path("seen.csv").write_text(sheet.replace("n0,1", "n0,2"))
    >>> (step,) = treadle.check_cabling("planned.csv", "seen.csv").steps
    >>> f"{step.action} {step.at} to {step.to}"
    "move ('n0', 2) to ('n0', 1)"
    """
    plan, _ = read_cables(planned)
    seen, kind = read_cables(observed, host=host)
    # a port that is joined to itself stays empty
    empty = {one.tail for one in plan if one.tail == one.head}
    plan = tuple(one for one in plan if one.tail != one.head)
    seen = tuple(one for one in seen if one.tail != one.head or not (one.is_duplex or one.tail in empty))
    if kind == "lldp":
        at = {one.tail[0] for one in seen}
        plan = tuple(one for one in plan if at & {one.tail[0], one.head[0]})
    one_way = any(not one.is_duplex for one in plan)
    duplex_ports = {plug for one in plan if one.is_duplex for plug in (one.tail, one.head)}
    ports = one_way, duplex_ports
    wanted = _matching(plan, ports, str(planned), doubts=None)
    doubts: list[str] = []
    found = _matching(seen, ports, str(observed), doubts=doubts, is_heard=kind != "csv")
    right = {side for side, other in found.items() if wanted.get(side) == other}
    steps = [step for part in _parts(wanted, found) for step in _mended(part, wanted, found)]
    return CablingReport(
        len(wanted) // 2, len(found) // 2, len(right) // 2, tuple(steps), tuple(doubts), kind
    )


def _matching(
    rows: Sequence[SeenCable],
    ports: tuple[bool, set[Plug]],
    source: str,
    *,
    doubts: list[str] | None,
    is_heard: bool = False,
) -> dict[Side, Side]:
    """Return the other end of every end; a cable that both ends report counts once.

    `ports` says whether links are unidirectional, and which ports are those of duplex cables. What is heard
    at a port comes from the other one.
    """
    one_way, duplex = ports
    found: dict[Side, Side] = {}
    lines: dict[Side, int] = {}
    for row in rows:
        is_lone = one_way and not (row.tail in duplex and row.head in duplex)
        first, second = (row.head, row.tail) if is_lone and is_heard else (row.tail, row.head)
        ends = (*first, "sends" if is_lone else ""), (*second, "receives" if is_lone else "")
        if found.get(ends[0]) == ends[1]:
            continue
        for place, end in enumerate(ends):
            if end not in found:
                continue
            before = found[end]
            said = " and to ".join(format_plug(one[:2]) for one in (before, ends[1 - place]))
            said = f"{format_plug(end[:2])} is joined to {said}"
            if doubts is None:
                raise FormatError(f"{said} (line {lines[end]})", source=source, line=row.line)
            doubts.append(f"line {row.line}: {said} (line {lines[end]}); the first is believed")
            break
        else:
            found[ends[0]], found[ends[1]] = ends[1], ends[0]
            lines[ends[0]] = lines[ends[1]] = row.line
    return found


def _parts(wanted: Mapping[Side, Side], found: Mapping[Side, Side]) -> Iterable[list[Side]]:
    """Return paths and cycles of ends on which planned and installed cables alternate, without correct ones.

    A path begins at an end with one cable only, a cycle with an installed cable.
    """
    done: set[Side] = set()
    loose = [end for end in (*wanted, *found) if (end in wanted) != (end in found)]
    for start in (*loose, *found):
        if start in done or found.get(start) == wanted.get(start):
            continue
        part, end, by = [start], start, found if start in found else wanted
        done.add(start)
        while (end := by[end]) not in done:
            part.append(end)
            done.add(end)
            by = wanted if by is found else found
            if end not in by:
                break
        yield part


def _mended(
    part: list[Side], wanted: Mapping[Side, Side], found: Mapping[Side, Side]
) -> Iterable[Replugging]:
    """Yield the moves along one part; a path's last step lays a missing cable or removes a surplus one."""
    seen = [(a, b) for a, b in pairwise(part) if found.get(a) == b]
    planned = [(a, b) for a, b in pairwise(part) if wanted.get(a) == b]
    if part[0] in found and part[0] in wanted:  # a circle
        fault = CableFault.SWAPPED if len(seen) == 2 else CableFault.WRONG
        # (a, b) keeps b; the plug in the last one's place is pulled first and put in at the end
        for place, (a, b) in enumerate(reversed(seen)):
            yield Replugging(fault, PlugAction.MOVE, a[:2], wanted[b][:2], b[:2], is_held=place == 0)
        return
    # a path that begins with a planned cable has a free port there: fill that first
    from_start = part[0] in wanted
    if len(planned) < len(seen):
        a, b = seen.pop(0)  # and so it begins with a free port
        from_start = True
        yield Replugging(CableFault.SURPLUS, PlugAction.TAKE_OUT, a[:2], b[:2])
    over = planned[-1] if len(planned) > len(seen) else None
    for a, b in seen if from_start else reversed(seen):
        near, far = (a, b) if from_start else (b, a)
        # of (near, far): near is joined to the free port, far is where the plug sits now
        yield Replugging(CableFault.WRONG, PlugAction.MOVE, far[:2], wanted[near][:2], near[:2])
    if over is not None:
        yield Replugging(CableFault.MISSING, PlugAction.LAY, over[0][:2], over[1][:2])
