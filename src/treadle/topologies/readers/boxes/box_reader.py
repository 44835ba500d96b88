"""Common parts of readers of XML about boxes: the parts that they found, and what is rejected."""

from __future__ import annotations

from typing import Any

from lxml import etree

from treadle.topologies.readers.boxes.box import MAX_DEVICES, Bridge, Nic
from treadle.topologies.readers.boxes.wiring import typed_model
from treadle.topologies.readers.boxes.xml_source import Attributes
from treadle.topologies.readers.imported import Finding, ImportOptions, SourceFile


class BoxReader(Attributes):
    """Reads elements, and keeps what of a box was found so far."""

    def __init__(self, source: SourceFile, options: ImportOptions) -> None:
        super().__init__(source)
        self.typed = typed_model(source, options)
        self.nics: list[Nic] = []
        self.bridges: list[Bridge] = []
        self.warnings: list[Finding] = []
        self._seen: set[tuple[object, ...]] = set()

    def warn(self, line: int, text: str) -> None:
        """Add a warning about a line."""
        self.warnings.append(Finding(text, f"line {line}"))

    def once(self, element: etree._Element, key: str, value: str, *of: object) -> None:
        """Reject a value that another element of the same kind `of` has."""
        if (key, value, *of) in self._seen:
            raise self.error(element, f'{key}="{value[:40]}" is there twice')
        self._seen.add((key, value, *of))

    def check_count(self, element: etree._Element, count: int, what: str, most: int = MAX_DEVICES) -> None:
        """Reject an element beyond the limit."""
        if count >= most:
            raise self.error(element, f"is one of more than {most}{what}, the most that are read")

    def add_bridge(self, **parts: Any) -> int:
        """Return the number of a new bridge."""
        self.bridges.append(Bridge(**parts))
        return len(self.bridges) - 1
