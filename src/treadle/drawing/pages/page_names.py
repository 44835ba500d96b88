"""File names of reports."""

from __future__ import annotations

from pathlib import Path

from treadle.errors import FormatError


def check_page_name(path: Path | str | None, option: str) -> None:
    """Raise FormatError unless a report may be written there.

    Parameters
    ----------
    path : Path or str, optional
    option : str
        By which it is given.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.check_page_name("page.html", "--report")
    """
    if path is None or Path(path).suffix.lower() not in (".html", ".htm"):
        found = "is missing" if path is None else f"{str(path)[:200]!r}"
        raise FormatError(f"{option} {found}: expected where to write the page, a name that ends in .html")
