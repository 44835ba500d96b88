"""Follows the choice of the MSCCL runtimes among several texts, call by call.

Reads nothing but the first tag of each text. A text has to be chosen for the first and last calls of its
range and for some between, with elements of 1 to 8 bytes, and for none outside. Shares no code with what
writes texts, names their files or tells which sizes they serve.

Source: ``mscclInternalSchedulerSelectAlgo`` of src/misc/msccl/msccl_lifecycle.cc of
Azure/msccl-executor-nccl and ROCm/rccl, ``ncclTopoGetMSCCLAlgo`` of src/graph/tuning.cc and ``ArgsCheck`` of
src/misc/argcheck.cc of microsoft/msccl.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from treadle.errors import FormatError
from treadle.formats.verdict import RangedFile

MOST_TEXTS: Mapping[str, int] = {"azure": 1024, "rccl": 1024, "legacy": 4}
"""``MSCCL_MAX_NUM_ALGOS``."""
_SHARDED = ("allgather", "reducescatter", "reduce_scatter", "alltoall")
_FAR = 2**34
"""Bytes: last size tried of a text without limit."""
_ANY_ORDER = ("rccl",)
"""Dialects of runtimes that go through their folder in no order that is known."""


@dataclass(frozen=True)
class _Heading:
    """What a runtime compares of a text."""

    file: str
    collective: str
    n_ranks: int
    chunks: int
    min_bytes: int
    max_bytes: int
    modes: tuple[bool, bool]
    """Serves calls out of place, in place."""

    def supports(self, call: _Call, dialect: str) -> bool:
        """Whether the runtime would take the text for a call, were it the only one."""
        compared, size = call.elements, call.elements * call.element_bytes
        if dialect == "legacy":
            fits = self.min_bytes <= size < self.max_bytes
            if call.collective in ("allgather", "broadcast"):
                compared = size
        else:
            fits = self.min_bytes <= size and (self.max_bytes == 0 or size <= self.max_bytes)
        return (
            fits
            and (self.collective, self.n_ranks) == (call.collective, call.n_ranks)
            and self.modes[call.in_place]
            and compared > 0
            and compared % self.chunks == 0
        )


@dataclass(frozen=True)
class _Call:
    """A call by the elements of its larger per-rank buffer."""

    collective: str
    n_ranks: int
    in_place: bool
    elements: int
    element_bytes: int


def check_selection(
    texts: Sequence[RangedFile], _files: Mapping[str, bytes], dialect: str | None
) -> tuple[str, ...]:
    """What is wrong with the choices among texts that lie in one folder; empty if nothing is.

    Raises
    ------
    FormatError
        If a text has no heading.
    """
    profile = dialect or "azure"
    headings = [_heading(text) for text in texts]
    if profile == "azure":
        headings.sort(key=lambda one: one.file.encode())
    most = MOST_TEXTS[profile]
    found = [f"{len(texts)} texts, the {profile} runtime reads {most}"] if len(texts) > most else []
    for text in texts:
        found += _misled(text, headings, profile)
    return tuple(dict.fromkeys(found))


def _misled(text: RangedFile, headings: list[_Heading], profile: str) -> Iterator[str]:
    """Calls of a text's range that the runtime gives to another, and others that it gives to the text."""
    own = next(one for one in headings if one.file == text.file)
    modes = (not text.in_place, text.in_place)
    said = (own.n_ranks, own.modes, own.chunks)
    if said != (text.n_ranks, modes, text.n_chunks):
        meant = (text.n_ranks, modes, text.n_chunks)
        yield f"{text.file}: ranks, mode and chunks are {said}, meant are {meant}"
        return
    if own.collective in _SHARDED and own.chunks % own.n_ranks:
        yield f"{text.file}: {own.chunks} chunks are no equal shards of {own.n_ranks} ranks"
        return
    end = text.max_bytes
    if end is None:  # the legacy runtime knows no unlimited texts
        end = own.max_bytes - 1 if profile == "legacy" else _FAR
    for element in (1, 2, 4, 8):
        for units, belongs in text.tried(element * own.chunks, end, beyond=text.max_bytes is not None):
            call = _Call(own.collective, text.n_ranks, text.in_place, units * own.chunks, element)
            taken = [one.file for one in headings if one.supports(call, profile)]
            if profile not in _ANY_ORDER:
                taken = taken[:1]
            if belongs and text.file not in taken and not (text.fills_in and taken):
                yield f"{text.file}: not taken for {_words(call)}, but {taken[0] if taken else 'none'}"
            elif not belongs and text.file in taken:
                yield f"{text.file}: taken for {_words(call)}, which is outside its range"
            elif len(taken) > 1:
                yield f"{' and '.join(taken)}: both serve {_words(call)}, and no order is known"


def _words(call: _Call) -> str:
    return f"{call.elements} elements of {call.element_bytes} bytes"


def _heading(text: RangedFile) -> _Heading:
    tag = re.match(r"\s*<algo\s([^<>]*)>", text.data[:4096].decode("utf-8", "replace"))
    if tag is None:
        raise FormatError("expected the tag algo", source=text.file)
    said = dict(re.findall(r'(\w+)="([^"]*)"', tag[1]))
    try:
        return _Heading(
            text.file,
            said["coll"],
            int(said["ngpus"]),
            int(said["nchunksperloop"]),
            int(said["minBytes"]),
            int(said["maxBytes"]),
            (said["outofplace"] == "1", said["inplace"] == "1"),
        )
    except (KeyError, ValueError) as error:
        raise FormatError(f"the tag algo: {error}", source=text.file) from None
