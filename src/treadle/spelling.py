"""Names as people spell them, and what was probably meant by one that is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treadle.errors import FormatError, TreadleError

_LONGEST = 40
"""Characters of a name that are compared and shown; nothing known is longer."""
_PART = 3
"""Length from which a part of a name suggests it: ``a100`` for ``dgx_a100``."""
_MARGIN = 0.05
"""Names less similar than the best match by more than this are not suggested."""


def folded(name: str) -> str:
    """Normalize a name: case, blanks, hyphens and underscores.

    Examples
    --------
    >>> folded("Reduce_Scatter"), folded("DGX-A100")
    ('reducescatter', 'dgxa100')
    """
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def similarly_spelt(name: str, known: Iterable[str]) -> str | None:
    """The known name that is meant by another spelling; None if there is none, or more than one.

    Examples
    --------
    >>> similarly_spelt("msccl_xml", ["msccl-xml", "cpu-xml"])
    'msccl-xml'
    """
    names = list(known)
    if name in names:
        return name
    wanted = folded(name[:_LONGEST])
    found = [one for one in names if wanted and folded(one) == wanted]
    return found[0] if len(found) == 1 else None


def close_names(name: str, known: Iterable[str], *, most: int = 2) -> list[str]:
    """Return similar known names, the best first: a few characters differ, or it is a part of them."""
    from difflib import SequenceMatcher, get_close_matches  # here, because most names are right

    wanted = folded(name[:_LONGEST])
    names = {folded(one): one for one in reversed(list(known))}
    parts = sorted((one for one in names if wanted in one), key=len) if len(wanted) >= _PART else []
    close = get_close_matches(wanted, names, n=most)
    shares = {one: SequenceMatcher(None, one, wanted).ratio() for one in close}
    as_close = [one for one in close if shares[one] >= shares[close[0]] - _MARGIN]
    return [names[one] for one in dict.fromkeys([*close[:1], *parts, *as_close])][:most]


def counted(number: int, noun: str) -> str:
    """A number and a regular noun that agrees with it.

    Examples
    --------
    >>> counted(1, "switch"), counted(2, "switch"), counted(0, "link")
    ('1 switch', '2 switches', '0 links')
    """
    ending = "" if number == 1 else "es" if noun.endswith(("ch", "s", "x")) else "s"
    return f"{number} {noun}{ending}"


def listing(names: Sequence[object], most: int) -> str:
    """The first names, and how many more there are.

    Examples
    --------
    >>> listing(["a", "b", "c"], 2), listing([3, 4], 2)
    ('a, b and 1 more', '3, 4')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the suggestion after an unknown name; "" if nothing is similar.

    Examples
    --------
    >>> did_you_mean("tours", ["torus", "star"]), did_you_mean("xyz", ["torus"])
    ('; did you mean torus?', '')
    """
    close = close_names(name, known)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def unknown(what: str, name: str, known: Iterable[str], *, fix: str = "") -> str:
    """The whole complaint: what was probably meant, else all there is, or where that is listed.

    Parameters
    ----------
    what : str
        A noun: ``algorithm``.
    name : str
        As it was typed.
    known : iterable of str
    fix : str
        Said in place of the list, where that is long.

    Examples
    --------
    >>> unknown("collective", "allreduc", ["allgather", "allreduce"])
    "unknown collective 'allreduc'; did you mean allreduce? Expected one of allgather, allreduce"
    """
    names = list(known)
    hint = did_you_mean(name, names)
    rest = fix or f"expected one of {', '.join(names)}"
    rest = f" {rest[0].upper()}{rest[1:]}" if hint else f"; {rest}"
    return f"unknown {what} {name[:_LONGEST]!r}{hint}{rest}"


def known_name(
    what: str, name: str, known: Iterable[str], *, error: type[TreadleError] = FormatError, more: str = ""
) -> str:
    """The known name that is meant; an error that ends with `more` if there is none, or more than one.

    Examples
    --------
    >>> known_name("collective", "AllReduce", ["allgather", "allreduce"])
    'allreduce'
    """
    names = list(known)
    found = similarly_spelt(name, names)
    if found is None:
        raise error(unknown(what, name, names) + more)
    return found
