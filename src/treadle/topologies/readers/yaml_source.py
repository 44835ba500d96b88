"""YAML as data of others: plain mappings, lists and text, with bounds that a file cannot talk its way past.

PyYAML builds text only (its BaseLoader): numbers stay as they are written and are read exactly, ``no`` is no
truth value and ``1:30`` no number of seconds. Anchors and aliases, with which a small file makes a large
value, tags, and keys that occur twice are rejected.
"""

from __future__ import annotations

from typing import Any

import yaml

from treadle.errors import FormatError
from treadle.topologies.readers.imported import SourceFile

MAX_YAML_BYTES = 2**20
"""Largest file: PyYAML takes about a second for this much."""
MAX_DEPTH = 64
"""Largest nesting of lists and mappings."""

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def parse_yaml(source: SourceFile) -> Any:
    """Return the document: dicts, lists and strings; FormatError with its line for anything else."""
    if "\0" in source.text:
        raise source.error("a null character is not text")
    try:
        loader = _LOADER(source.text)
    except (yaml.YAMLError, UnicodeEncodeError):
        raise source.error("not valid text (a control character or a lone surrogate)") from None
    try:
        return _compose(source, loader)
    except FormatError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise source.error(f"malformed YAML: {error.problem or error.context}", line, column) from None
    except (yaml.YAMLError, ValueError) as error:
        problem = " ".join(str(error).split())[:120]
        raise source.error(f"malformed YAML: {problem}") from None
    finally:
        loader.dispose()


def _compose(source: SourceFile, loader: Any) -> Any:
    """Build values from YAML events, without recursion and references."""
    documents: list[Any] = []
    # lists and mappings that are open, and of a mapping the key that waits for its value
    inner: list[tuple[Any, list[Any]]] = [(documents, [])]

    def error_at(message: str) -> FormatError:
        return source.error(message, event.start_mark.line + 1, event.start_mark.column + 1)

    while loader.check_event():
        event = loader.get_event()
        is_scalar = isinstance(event, yaml.ScalarEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise error_at("anchors and aliases are not read; write the value out")
        tag = getattr(event, "tag", None)
        # the parser sets the tag of plain text by itself for some scalars
        if tag is not None and not (is_scalar and str(tag) in ("!", "tag:yaml.org,2002:str")):
            raise error_at(f"the tag {str(tag)[:40]!r} is not read")
        if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            inner.pop()
        if not isinstance(event, yaml.ScalarEvent | yaml.SequenceStartEvent | yaml.MappingStartEvent):
            continue
        value: Any = event.value if is_scalar else [] if isinstance(event, yaml.SequenceStartEvent) else {}
        place, key = inner[-1]
        if isinstance(place, list):
            place.append(value)
        elif key:
            place[key.pop()] = value
        elif not is_scalar:
            raise error_at("expected a plain key")
        elif value in place:
            raise error_at(f"key {value[:40]!r} appears twice in one mapping")
        else:
            key.append(value)
        if not is_scalar:
            if len(inner) > MAX_DEPTH:
                raise error_at(f"nested more than {MAX_DEPTH} deep")
            inner.append((value, []))
    if len(documents) != 1:
        raise source.error(f"expected one YAML document, found {len(documents)}")
    return documents[0]
