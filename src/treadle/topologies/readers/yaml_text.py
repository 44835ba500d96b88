"""YAML as data of others: plain mappings, lists and text, with bounds that a file cannot talk its way past.

PyYAML builds text only (its BaseLoader): numbers stay as they are written and are read exactly, ``no`` is no
truth value and ``1:30`` no number of seconds. Anchors and aliases, with which a small file makes a large
value, tags, and keys that occur twice are refused.
"""

from __future__ import annotations

from typing import Any

import yaml

from treadle.errors import FormatError
from treadle.topologies.readers.imported import SourceText

MAX_YAML_BYTES = 2**20
"""Largest file: PyYAML takes about a second for this much."""
MAX_DEPTH = 64
"""Of lists and mappings within each other."""

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def parse_yaml(source: SourceText) -> Any:
    """The document: dicts, lists and strings; FormatError with its line for anything else."""
    if "\0" in source.text:
        raise source.error("a null character is not text")
    try:
        loader = _LOADER(source.text)
    except (yaml.YAMLError, UnicodeEncodeError):
        raise source.error("not valid text (a control character or a lone surrogate)") from None
    try:
        found = _Composer(source, loader).document()
    except FormatError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(str(error.problem or error.context).split())
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise source.error(f"malformed YAML: {problem}", line=line, column=column) from None
    except (yaml.YAMLError, ValueError) as error:
        problem = " ".join(str(error).split())[:120]
        raise source.error(f"malformed YAML: {problem}") from None
    finally:
        loader.dispose()
    return found


class _Composer:
    """Values from the events of a text, without recursion and without anything that refers elsewhere."""

    def __init__(self, source: SourceText, loader: Any) -> None:
        self._source = source
        self._loader = loader
        self._open: list[tuple[Any, list[Any]]] = []
        """Lists and mappings that are open, and of a mapping the key that waits for its value."""
        self._root: list[Any] = []

    def document(self) -> Any:
        while self._loader.check_event():
            event = self._loader.get_event()
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
                raise self._refused(event, "anchors and aliases are not read; write the value out")
            if getattr(event, "tag", None) is not None and not self._is_plain(event):
                raise self._refused(event, f"the tag {str(event.tag)[:40]!r} is not read")
            self._take(event)
        if len(self._root) != 1:
            raise self._source.error(f"expected one YAML document, found {len(self._root)}")
        return self._root[0]

    @staticmethod
    def _is_plain(event: Any) -> bool:
        """Whether a tag is the one of plain text, which the parser sets by itself for some scalars."""
        return isinstance(event, yaml.ScalarEvent) and str(event.tag) in ("!", "tag:yaml.org,2002:str")

    def _refused(self, event: Any, message: str) -> Exception:
        mark = event.start_mark
        return self._source.error(message, line=mark.line + 1, column=mark.column + 1)

    def _take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._put(event, event.value)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            value: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
            self._put(event, value)
            if len(self._open) == MAX_DEPTH:
                raise self._refused(event, f"nested more than {MAX_DEPTH} deep")
            self._open.append((value, []))
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            self._open.pop()

    def _put(self, event: Any, value: Any) -> None:
        """Add a value to what is innermost."""
        if not self._open:
            self._root.append(value)
            return
        place, key = self._open[-1]
        if isinstance(place, list):
            place.append(value)
        elif key:
            place[key.pop()] = value
        elif not isinstance(value, str):
            raise self._refused(event, "expected a plain key")
        elif value in place:
            raise self._refused(event, f"key {value[:40]!r} appears twice in one mapping")
        else:
            key.append(value)
