"""XML of others, within limits: no DTD is loaded, no entity resolved, nothing fetched."""

from __future__ import annotations

import re
from typing import cast

from lxml import etree

from treadle.errors import FormatError
from treadle.topologies.readers.imported import SourceFile

MAX_DEPTH = 64
"""Deepest nesting of elements."""
MAX_TAGS = 200_000
"""Most tags, opening and closing together: the parsed tree takes some 100 MB at most."""
_DECLARATION = re.compile(r"\A\s*<\?xml\s[^>]*\?>")
_LITERAL = r"(?:\"[^\"]*\"|'[^']*')"
_DOCTYPE = re.compile(
    rf"<!DOCTYPE\s+[\w.:-]+\s*(?:SYSTEM\s+{_LITERAL}|PUBLIC\s+{_LITERAL}\s*{_LITERAL}?)?\s*>"
)


def parse_xml(source: SourceFile) -> etree._Element:
    """Parse XML and return its root element.

    Raises
    ------
    FormatError
        If it is not well-formed, nested too deeply or too long, or brings declarations of its own. The
        external identifier of a DOCTYPE is accepted and left alone.
    """
    # the declaration says nothing that is not known; blanks before it, as of a pasted text, are no harm
    text = _DECLARATION.sub(lambda match: "\n" * match[0].count("\n"), source.text, count=1)
    for match in re.finditer(r"<!(?:DOCTYPE|ENTITY|ELEMENT|ATTLIST)", text):
        if not _DOCTYPE.match(text, match.start()):
            line = text.count("\n", 0, match.start()) + 1
            raise source.error("brings declarations of its own (a DTD), which are not read", line=line)
    if text.count("<") > MAX_TAGS:
        raise source.error(f"has more than {MAX_TAGS} tags, the most that is read")
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
        encoding="utf-8",
    )
    try:
        root = etree.fromstring(text.encode("utf-8"), parser)
    except UnicodeEncodeError:
        raise source.error("not valid text (lone surrogate)") from None
    except etree.XMLSyntaxError as error:
        message = " ".join(str(error.msg).split())[:120]
        raise source.error(f"malformed XML: {message}", line=error.lineno or 1) from None
    level, depth = [root], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise source.error(f"elements are nested more than {MAX_DEPTH} deep", line=line_of(level[0]))
        level = [child for element in level for child in element]
        for child in level:
            if not isinstance(child.tag, str):
                raise source.error("entities are not read", line=line_of(child))
    return root


def line_of(element: etree._Element) -> int:
    """Return the line in which an element begins."""
    return cast("int", element.sourceline)  # None only in elements that were not read from a text


def name_of(element: etree._Element) -> str:
    """Return an element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


class Attributes:
    """Reads attributes of elements, and says where they are wrong."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source

    def error(self, element: etree._Element, message: str) -> FormatError:
        """Return a FormatError about an element."""
        return self.source.error(f"<{name_of(element)}> {message}", line_of(element))

    def choice(self, element: etree._Element, key: str, default: str | None = None) -> str:
        """Return an attribute that must be there, unless it has a default."""
        value = element.get(key, default)
        if value is None:
            raise self.error(element, f"lacks the attribute {key}")
        return str(value)

    def matched(
        self,
        element: etree._Element,
        key: str,
        pattern: re.Pattern[str],
        expected: str,
        default: str | None = None,
    ) -> re.Match[str]:
        """Return an attribute, in lower case, that a pattern matches."""
        text = self.choice(element, key, default).casefold()
        match = pattern.fullmatch(text)
        if match is None:
            raise self.error(element, f'{key}="{text[:40]}": expected {expected}')
        return match

    def number(
        self, element: etree._Element, key: str, low: int, high: int, default: int | None = None
    ) -> int:
        """Return an integer within limits; `default`, if there is one, where the attribute is absent."""
        text = self.choice(element, key, None if default is None else str(default)).strip()
        if not re.fullmatch(r"-?[0-9]{1,15}", text, re.ASCII) or not low <= int(text) <= high:
            raise self.error(element, f'{key}="{text[:40]}": expected an integer from {low} to {high}')
        return int(text)
