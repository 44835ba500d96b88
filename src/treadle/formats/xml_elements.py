"""Safe parsing of XML files: no DTD, no entity, no network access; errors name the element and its line."""

from __future__ import annotations

import re
from typing import cast

from lxml import etree

from treadle.errors import FormatError

DECLARATIONS = (r"<!(?!--)", "a DTD, entity or CDATA section")
_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_SMALL = {str(number): number for number in range(-1, 2**12)}


def parse_xml(
    text: str,
    source: str,
    most: int,
    refused: tuple[tuple[str, str], ...] = (DECLARATIONS,),
    *,
    remove_pis: bool = False,
) -> etree._Element:
    """Return the top element; FormatError beyond `most` characters or for a match of a `refused` pattern."""
    if len(text) > most:
        raise FormatError(f"{len(text)} characters, expected at most {most}", source=source)
    for pattern, what in refused:
        if match := re.search(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            raise FormatError(f"{what} is not accepted", source=source, line=line)
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=remove_pis,
    )
    try:
        return etree.fromstring(text.encode("utf-8"), parser)
    except UnicodeEncodeError:
        raise FormatError("not valid text (lone surrogate)", source=source) from None
    except etree.XMLSyntaxError as error:
        message = " ".join(str(error.msg).split())
        raise FormatError(f"not well-formed ({message})", source=source, line=error.lineno or 1) from None


def line_of(element: etree._Element) -> int:
    """Return the line in which an element begins."""
    return cast("int", element.sourceline)  # None only in elements that were not parsed


class Attributes:
    """Reader of the attributes of elements, each required."""

    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, element: etree._Element, message: str) -> FormatError:
        """Return an error that names the element and its line."""
        return FormatError(f"<{str(element.tag)[:40]}> {message}", source=self.source, line=line_of(element))

    def string(self, element: etree._Element, key: str, default: str | None = None) -> str:
        """Return an attribute."""
        value = element.get(key, default)
        if value is None:
            raise self.fail(element, f"lacks the attribute {key}")
        return str(value)

    def choice(
        self, element: etree._Element, key: str, allowed: tuple[str, ...], default: str | None = None
    ) -> str:
        """Return an attribute that is one of some words."""
        value = self.string(element, key, default)
        if value not in allowed:
            raise self.fail(element, f"{key}={value[:40]!r}: expected one of {', '.join(allowed)}")
        return value

    def number(self, element: etree._Element, key: str, low: int, high: int) -> int:
        """Return an attribute that is an integer in a range."""
        # A large file has millions of numbers, nearly all small, so a table is read first.
        number = _SMALL.get(element.get(key, ""))
        if number is None:
            value = self.string(element, key)
            number = int(value) if _NUMBER.fullmatch(value) else high + 1
        if not low <= number <= high:
            found = self.string(element, key)[:40]
            raise self.fail(element, f"{key}={found!r}: expected an integer from {low} to {high}")
        return number
