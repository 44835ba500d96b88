"""How texts about boxes begin."""

from __future__ import annotations

import re

_SKIPPED = (("<?", "?>"), ("<!--", "-->"), ("<!DOCTYPE", ">"))
"""What may stand before an XML text's first element: its beginning and its end."""
_ELEMENT = re.compile(r"<([A-Za-z_][\w.-]*)")


def root_tag(head: str) -> str:
    """Name of the first element of an XML text; "" where there is none."""
    place = 0
    while True:
        place += len(head[place:]) - len(head[place:].lstrip())
        for start, end in _SKIPPED:
            if head.startswith(start, place):
                place = head.find(end, place) + len(end)
                break
        else:
            break
        if place < len(end):
            return ""
    match = _ELEMENT.match(head, place)
    return match[1] if match else ""


def begins_nccl_xml(head: str) -> bool:
    """Whether a text is NCCL's or RCCL's."""
    return root_tag(head) == "system"
