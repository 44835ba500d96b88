"""Verifies which of several runtime files the MSCCL runtimes would choose, call by call.

Only the first tag of each file is read. A file must be chosen for the first and last calls of its range and
for some between, with elements of 1 to 8 bytes, and for none outside. Shares no code with the modules that
write the files, name them, or compute the sizes that they support.

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
"""Last size, in bytes, that is tried for a file without limit."""
_ANY_ORDER = ("rccl",)
"""Dialects of runtimes that read their folder in an unknown order."""


@dataclass(frozen=True)
class _Heading:
    """The attributes of a file that a runtime compares with a call."""

    file: str
    collective: str
    n_ranks: int
    chunks: int
    min_bytes: int
    max_bytes: int
    modes: tuple[bool, bool]
    """Whether it supports calls out of place, in place."""

    def supports(
        self, like: _Heading, in_place: bool, elements: int, element_bytes: int, dialect: str
    ) -> bool:
        """Whether a runtime with only this file would use it for a call with the collective of `like`."""
        compared, size = elements, elements * element_bytes
        if dialect == "legacy":
            fits = self.min_bytes <= size < self.max_bytes
            if like.collective in ("allgather", "broadcast"):
                compared = size
        else:
            fits = self.min_bytes <= size and (self.max_bytes == 0 or size <= self.max_bytes)
        return (
            fits
            and (self.collective, self.n_ranks) == (like.collective, like.n_ranks)
            and self.modes[in_place]
            and compared > 0
            and compared % self.chunks == 0
        )


def check_selection(
    texts: Sequence[RangedFile], _files: Mapping[str, bytes], dialect: str | None
) -> tuple[str, ...]:
    """Return the wrong choices among the files of one folder; FormatError if a file has no heading."""
    profile = dialect or "azure"
    headings = [_heading(text) for text in texts]
    if profile == "azure":
        headings.sort(key=lambda one: one.file.encode())
    most = MOST_TEXTS[profile]
    found = [f"{len(texts)} files, the {profile} runtime reads {most}"] if len(texts) > most else []
    for text in texts:
        found += _wrong_choices(text, headings, profile)
    return tuple(dict.fromkeys(found))


def _wrong_choices(text: RangedFile, headings: list[_Heading], profile: str) -> Iterator[str]:
    """Yield calls of a file's range for which another is chosen, and others for which this one is."""
    own = next(one for one in headings if one.file == text.file)
    found = (own.n_ranks, own.modes, own.chunks)
    expected = (text.n_ranks, (not text.in_place, text.in_place), text.n_chunks)
    if found != expected:
        yield f"{text.file}: ranks, mode and chunks are {found}, expected {expected}"
        return
    if own.collective in _SHARDED and own.chunks % own.n_ranks:
        yield f"{text.file}: {own.chunks} chunks are not equal shards of {own.n_ranks} ranks"
        return
    end = text.max_bytes
    if end is None:  # The legacy runtime always has a limit.
        end = own.max_bytes - 1 if profile == "legacy" else _FAR
    for element in (1, 2, 4, 8):
        for units, belongs in text.tried(element * own.chunks, end, beyond=text.max_bytes is not None):
            elements = units * own.chunks
            call = f"{elements} elements of {element} bytes"
            chosen = [
                one.file for one in headings if one.supports(own, text.in_place, elements, element, profile)
            ]
            if profile not in _ANY_ORDER:
                chosen = chosen[:1]
            if belongs and text.file not in chosen and not (text.fills_in and chosen):
                yield f"{text.file}: not chosen for {call}, but {chosen[0] if chosen else 'none'}"
            elif not belongs and text.file in chosen:
                yield f"{text.file}: chosen for {call}, which is outside its range"
            elif len(chosen) > 1:
                yield f"{' and '.join(chosen)}: both match {call}, and their order is unknown"


def _heading(text: RangedFile) -> _Heading:
    tag = re.match(r"\s*<algo\s([^<>]*)>", text.data[:4096].decode("utf-8", "replace"))
    if tag is None:
        raise FormatError("expected the tag algo", source=text.file)
    values = dict(re.findall(r'(\w+)="([^"]*)"', tag[1]))
    try:
        keys = ("ngpus", "nchunksperloop", "minBytes", "maxBytes")
        n_ranks, chunks, least, most = (int(values[key]) for key in keys)
        modes = (values["outofplace"] == "1", values["inplace"] == "1")
        return _Heading(text.file, values["coll"], n_ranks, chunks, least, most, modes)
    except (KeyError, ValueError) as error:
        raise FormatError(f"the tag algo: {error}", source=text.file) from None
