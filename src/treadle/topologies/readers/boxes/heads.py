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
                stop = head.find(end, place)
                if start == "<!DOCTYPE" and "[" in head[place:stop]:  # declarations of its own, to be refused
                    stop = head.find(end, head.find("]", place))
                break
        else:
            break
        if stop < place:
            return ""
        place = stop + len(end)
    match = _ELEMENT.match(head, place)
    return match[1] if match else ""


_NVIDIA_SMI = re.compile(
    r"^[ \t]{0,99}(?:\x1b\[[0-9;]*m)?[ \t]{0,99}GPU0\s.*\n[ \t]{0,99}GPU0[ \t]+[A-Z]", re.MULTILINE
)
_ROCM_SMI = re.compile(r"^=+ (?:Weight|Hops|Link Type) between two GPUs =+[ \t\r]*$", re.MULTILINE)
_AMD_SMI = re.compile(r"^(?:ACCESS|WEIGHT|HOPS|LINK TYPE) TABLE:\s*$", re.MULTILINE)


def begins_nccl_xml(head: str) -> bool:
    """Whether a text is NCCL's or RCCL's."""
    return root_tag(head) == "system"


def begins_nccl_log(head: str) -> bool:
    """Whether a text has lines of NCCL's log."""
    return " NCCL INFO " in head


def begins_hwloc_xml(head: str) -> bool:
    """Whether a text is hwloc's."""
    return root_tag(head) == "topology" and "<object " in head


def begins_nvidia_smi(head: str) -> bool:
    """Whether a text has the matrix of nvidia-smi topo -m."""
    return _NVIDIA_SMI.search(head) is not None


def begins_rocm_smi(head: str) -> bool:
    """Whether a text has tables of rocm-smi."""
    return _ROCM_SMI.search(head) is not None


def begins_amd_smi(head: str) -> bool:
    """Whether a text has tables of amd-smi."""
    return _AMD_SMI.search(head) is not None
