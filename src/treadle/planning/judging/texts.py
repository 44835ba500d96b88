"""Texts for runtimes judged by our own interpreters, whoever wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import FormatError
from treadle.formats.cpu.judge import interpret_cpu_xml
from treadle.formats.cpu.judge_parts import interpret_cpu_part, is_cpu_part
from treadle.formats.cpu.reader import MAX_TEXT
from treadle.formats.msccl.judge import interpret_msccl_xml
from treadle.formats.msccl.writer import Profile
from treadle.formats.mscclpp.judge import interpret_mscclpp_json
from treadle.formats.nccl.reader import parse_nccl_graph

_SIGNS = {"<algo": "msccl-xml", "<cpu": "cpu-xml", "<graphs": "nccl-graph", "{": "mscclpp-json"}
"""How each format begins, after comments; of JSON files only those with "gpus" are plans for MSCCL++."""
_HEAD = 2**16


@dataclass(frozen=True)
class TextVerification:
    """What parsing and executing a text showed.

    Parameters
    ----------
    format : str
        As `treadle lower --to` names it; MSCCL XML with the profile whose limits were applied.
    collective : str
        Empty for NCCL graphs, which serve several.
    n_ranks : int
    counts : tuple of (str, int)
        What the text consists of: nouns and how many.
    violations : tuple of str
    is_part : bool
        It holds one rank of several, which was played alone.
    """

    format: str
    collective: str
    n_ranks: int
    counts: tuple[tuple[str, int], ...]
    violations: tuple[str, ...]
    is_part: bool = False


def read_text(path: Path) -> str | None:
    """The content of a file that begins as one of the formats does; None for any other file.

    Raises
    ------
    FormatError
        If it begins so, and is too large or no UTF-8.
    """
    if not path.is_file():
        return None
    with path.open("rb") as file:
        content = file.read(2**16)
        if _sign(content.decode("utf-8", "replace")) is None:
            return None
        content += file.read(MAX_TEXT + 1 - len(content))
    if len(content) > MAX_TEXT:
        raise FormatError(f"more than {MAX_TEXT} bytes", source=str(path))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"byte {error.start} is no UTF-8", source=str(path)) from None


def _sign(text: str) -> str | None:
    """The format that a text begins as."""
    text = text[:_HEAD].lstrip()
    while text.startswith("<!--") and "-->" in text:
        text = text.partition("-->")[2].lstrip()
    if text.startswith("{") and '"gpus"' not in text:
        return None
    return next((name for sign, name in _SIGNS.items() if text.startswith(sign)), None)


def verify_text(
    text: str, *, source: str = "text", profile: Profile | str | None = None, root: int = 0
) -> TextVerification:
    """Parse a text and execute it on integer contributions.

    Parameters
    ----------
    text : str
    source : str
        Name for messages.
    profile : Profile or str, optional
        Of MSCCL XML; default the first whose limits and spellings hold, else azure.
    root : int
        Of broadcast and reduce, where the format does not name it.

    Raises
    ------
    FormatError
        If the text is malformed, hostile or of no known format.
    """
    name = _sign(text)
    if name == "msccl-xml":
        chosen = [Profile(profile)] if profile is not None else list(Profile)
        return _msccl(text, source, chosen, root)
    if name == "cpu-xml":
        if is_cpu_part(text):
            return _cpu_part(text, source)
        cpu = interpret_cpu_xml(text, source=source)
        counts = (("instruction", cpu.n_instructions), ("chunk", cpu.n_chunks))
        return TextVerification(name, cpu.collective, cpu.n_ranks, counts, cpu.violations)
    if name == "nccl-graph":
        graph = parse_nccl_graph(text, source=source)
        return TextVerification(name, "", len(graph.channels[0]), (("channel", len(graph.channels)),), ())
    if name == "mscclpp-json":
        plan = interpret_mscclpp_json(text, root=root, source=source)
        counts = (("plan operation", plan.n_operations), ("thread block", plan.n_thread_blocks))
        return TextVerification(name, plan.collective, plan.n_ranks, counts, plan.violations)
    raise FormatError("neither a plan nor a text of a known format", source=source)


def _cpu_part(text: str, source: str) -> TextVerification:
    """One rank's part: played alone, as if the others did their parts."""
    seen = interpret_cpu_part(text, source=source)
    part = seen.part
    counts = (("instruction", len(part.text.ranks[0].instructions)), ("chunk", part.text.n_chunks))
    name = f"cpu-xml, part of rank {part.rank} of {part.n_ranks}"
    return TextVerification(name, part.text.collective, 1, counts, seen.violations, is_part=True)


def _msccl(text: str, source: str, profiles: Sequence[Profile], root: int) -> TextVerification:
    """As the first runtime reads it that has nothing to object; else as the first that reads it at all."""
    first: TextVerification | None = None
    refusal: FormatError | None = None
    for profile in profiles:
        try:
            seen = interpret_msccl_xml(text, profile=profile, root=root, source=source)
        except FormatError as error:
            refusal = refusal or error
            continue
        counts = (("message", seen.n_messages), ("step", seen.n_steps), ("chunk", seen.n_chunks))
        found = TextVerification(
            f"msccl-xml ({profile})", seen.collective, seen.n_ranks, counts, seen.violations
        )
        if not found.violations:
            return found
        first = first or found
    if first is None:
        assert refusal is not None
        raise refusal
    return first
