"""Cables shared out among optical switches or patch panels, each of which holds its part.

A box of P ports joins any of its inputs to any of its outputs. A duplex cable takes two of its ports (both
directions of each), a unidirectional link the input of one port and the output of another: P such links fill
it. So any set of cables within that size fits, and the fewest boxes are cables over size; what is chosen is
which. Cables are coloured first, such that a node has at most two of each colour (one out and one in, of
duplex cables along an Euler circuit), and boxes are filled colour by colour: a box that fails takes few
cables of any node. Colours are by König's theorem (1916): a bipartite multigraph has an edge colouring with
as many colours as the largest degree, found by alternating paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int32Array
from treadle.errors import FormatError, InfeasibleError
from treadle.finder.cabling import Cable

MAX_CABLES = 200_000


@dataclass(frozen=True)
class OpticalBox:
    """An optical circuit switch, or a patch panel.

    Parameters
    ----------
    ports : int
        Duplex ports: each an input and an output.
    port_price : Fraction, optional
        Of each of its ports, whether used or not.
    most : int, optional
        How many there are.
    """

    ports: int
    port_price: Fraction | None = None
    most: int | None = None


@dataclass(frozen=True)
class OpticalPlanes:
    """Assignment of cables to boxes.

    Parameters
    ----------
    box : OpticalBox
    n_planes : int
        Boxes in use.
    plane : array of int32, shape (cables,)
        By cable; -1 for one that stays out: a port joined to itself.
    ports : array of int32, shape (cables, 2)
        Numbers of the box's ports: of the input from `from`, of the output to `to`; of a duplex cable both
        sides of each.
    """

    box: OpticalBox
    n_planes: int
    plane: Int32Array
    ports: Int32Array

    @property
    def price(self) -> Fraction | None:
        """Price of all boxes, unused ports included."""
        if self.box.port_price is None:
            return None
        return self.n_planes * self.box.ports * self.box.port_price


def parse_box(text: str) -> OpticalBox:
    """Parse a box: ports, and optionally the price of a port and how many boxes there are.

    Examples
    --------
    >>> parse_box("384,520")
    OpticalBox(ports=384, port_price=Fraction(520, 1), most=None)
    """
    parts = text.split(",", 3)
    numbers: list[Fraction] = []
    for part in parts[:3]:
        word = part.strip()
        if len(parts) > 3 or not word.isascii() or not word.replace(".", "", 1).isdigit() or len(word) > 12:
            raise FormatError(
                f"--ocs {text[:60]!r}: expected PORTS, PORTS,PRICE or PORTS,PRICE,COUNT, as in 384,520"
            )
        numbers.append(Fraction(word))
    ports, most = numbers[0], numbers[2] if len(numbers) > 2 else None
    if ports.denominator != 1 or not 2 <= ports <= 10**6:
        raise FormatError(f"--ocs {text[:60]!r}: expected 2 to 10**6 ports")
    if most is not None and (most.denominator != 1 or most < 1):
        raise FormatError(f"--ocs {text[:60]!r}: expected an integer number of boxes")
    return OpticalBox(
        int(ports), numbers[1] if len(numbers) > 1 else None, None if most is None else int(most)
    )


def divide_among(wires: Sequence[Cable], box: OpticalBox) -> OpticalPlanes:
    """Divide cables evenly among as few boxes as hold them.

    Parameters
    ----------
    wires : sequence of Cable
    box : OpticalBox

    Raises
    ------
    InfeasibleError
        If there are fewer boxes than that; the message names how many ports are short.
    """
    if len(wires) > MAX_CABLES:
        raise FormatError(f"--ocs: {len(wires)} cables, at most {MAX_CABLES} are shared out")
    used = [place for place, wire in enumerate(wires) if wire.tail != wire.head]
    # in half ports: an input or an output
    size = np.array([2 if wires[place].is_duplex else 1 for place in used], dtype=np.int64)
    n_planes, order = 1, used
    if used:
        colour = _colours([wires[place] for place in used])
        # one-way links last: they fill what duplex cables leave
        ranked = sorted(range(len(used)), key=lambda i: (size[i] == 1, colour[i], i))
        order = [used[i] for i in ranked]
        size = size[ranked]
        n_planes = _fewest(size, box)
    plane = np.full(len(wires), -1, dtype=np.int32)
    ports = np.full((len(wires), 2), -1, dtype=np.int32)
    for number, part in enumerate(_parts(size, n_planes, box.ports)):
        taken = 0
        for place in (order[i] for i in part):
            # a one-way link has the input and the output of one number, and its ends belong to two nodes
            is_duplex = wires[place].is_duplex
            plane[place] = number
            ports[place] = taken, taken + is_duplex
            taken += 1 + is_duplex
    return OpticalPlanes(box, n_planes, plane, ports)


def _fewest(size: np.ndarray[tuple[int], np.dtype[np.int64]], box: OpticalBox) -> int:
    """Return the fewest boxes for all cables; an odd port may stay empty, as duplex cables take two."""
    total = int(size.sum())
    count = -(-total // box.ports)
    while any(int(size[list(part)].sum()) > box.ports for part in _parts(size, count, box.ports)):
        count += 1
    if box.most is not None and count > box.most:
        held = box.most * box.ports
        raise InfeasibleError(
            f"--ocs: the cables take {total} ports, and {box.most} boxes of {box.ports} have {held}: "
            f"{max(1, total - held)} short; {count} boxes hold them"
        )
    return count


def _parts(size: np.ndarray[tuple[int], np.dtype[np.int64]], count: int, ports: int) -> Iterator[range]:
    """Yield consecutive parts of about equal size, none beyond `ports` but the last."""
    first, left = 0, int(size.sum())
    for number in range(count):
        share = min(ports, -(-left // (count - number)))
        last, taken = first, 0
        while last < len(size) and (number == count - 1 or taken + size[last] <= share):
            taken += int(size[last])
            last += 1
        yield range(first, last)
        first, left = last, left - taken


def _colours(wires: Sequence[Cable]) -> list[int]:
    """Colour the cables: a node has at most one of each colour out and one in, along the orientation."""
    tails = [wire.tail for wire in wires]
    heads = [wire.head for wire in wires]
    for place, turned in _oriented([(i, wire) for i, wire in enumerate(wires) if wire.is_duplex]):
        if turned:
            tails[place], heads[place] = heads[place], tails[place]
    out: dict[tuple[int, int], int] = {}
    into: dict[tuple[int, int], int] = {}
    colour = [-1] * len(wires)
    degree = int(max(np.bincount(tails).max(), np.bincount(heads).max()))
    for place, (tail, head) in enumerate(zip(tails, heads, strict=True)):
        a = next(c for c in range(degree) if (tail, c) not in out)
        b = next(c for c in range(degree) if (head, c) not in into)
        # swap both along the path from the cable's head, so that a is free there as well
        path: list[int] = []
        at, wanted, at_head = head, a, True
        while a != b and (met := (into if at_head else out).get((at, wanted))) is not None:
            path.append(met)
            at = tails[met] if at_head else heads[met]
            wanted, at_head = (b if wanted == a else a), not at_head
        for one in path:
            del out[tails[one], colour[one]], into[heads[one], colour[one]]
        for one in path:
            colour[one] = b if colour[one] == a else a
            out[tails[one], colour[one]] = into[heads[one], colour[one]] = one
        out[tail, a] = into[head, a] = place
        colour[place] = a
    return colour


def _oriented(wires: Sequence[tuple[int, Cable]]) -> Iterator[tuple[int, bool]]:
    """Yield duplex cables along Euler trails, and whether each is reversed; in and out differ by 0 or 1."""
    near: dict[int, list[int]] = {}
    for number, (_, wire) in enumerate(wires):
        near.setdefault(wire.tail, []).append(number)
        near.setdefault(wire.head, []).append(number)
    is_gone = [False] * len(wires)
    # trails begin at odd nodes, where they must, and then anywhere
    for start in sorted(near, key=lambda node: (len(near[node]) % 2 == 0, node)):
        node = start
        while True:
            while near[node] and is_gone[near[node][-1]]:
                near[node].pop()
            if not near[node]:
                if node == start or not near[start]:
                    break
                node = start
                continue
            number = near[node].pop()
            is_gone[number] = True
            place, wire = wires[number]
            yield place, wire.tail != node
            node = wire.head if wire.tail == node else wire.tail
