"""NCCL's system tree, as its log has it, becomes a box."""

from __future__ import annotations

from pathlib import Path

import pytest

from samples.logs.nccl_logs import info, system_tree
from treadle.errors import FormatError
from treadle.planning import import_topology
from treadle.topologies.readers.boxes.box import Box
from treadle.topologies.readers.boxes.nccl_system import read_system
from treadle.topologies.readers.imported import LinkSpeeds

GB = 10**9


def numbered(lines: list[str]) -> list[tuple[int, str]]:
    """Lines of a log with their numbers, as the tree's reader gets them."""
    return [(number, line.partition("NCCL INFO ")[2]) for number, line in enumerate(lines, start=1)]


def read(lines: list[str], links: LinkSpeeds = LinkSpeeds.NOMINAL) -> Box:
    return read_system(numbered(lines), links=links, source="log")


def test_speeds_that_no_generation_explains_stay_and_are_told() -> None:
    box = read(system_tree(nvlink="NVL[33.3] - NVS/0"))
    assert {link.bandwidth for link in box.links} == {333 * GB // 10}
    assert "no known generation" in str(box.warnings[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CPU/0 (1/1/2)", "shows no GPU"),
        ("+ PCI[12.0] - GPU/1000 (0)", "hangs from nothing"),
        ("PCI/1000 (1)", "begins with CPUs"),
        ("CPU/0 (1/1/2)\n    + PCI[12.0] - GPU/1000 (0)", "indentation is lost"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000", "has no rank"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n+ PCI[12.0] - GPU/1000 (1)", "bus id"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n              + NVL[40.0] - GPU/1000", "to itself"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n              + NVL[40.0] - GPU/2000", "does not show"),
        ("CPU/0 (1/1/2)\n+ PCI[0.0] - GPU/1000 (0)", "no speed"),
        ("CPU/0 (1/1/2)\nsomething else", "no line of a system tree"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n+ NVL[40.0] - NVS/0", "indentation is lost"),
        ("CPU/0 (1/1/2)\n+ PCI[12.0] - GPU/1000 (0)\n+ NET[12.5] - NET/0 (1/1/12.5)", "indentation is lost"),
        ("", "shows no GPU"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        read_system(list(enumerate(text.splitlines(), start=1)), source="log")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "word"), [(system_tree()[:12], "cut off"), ([info("hello")], "no system tree")]
)
def test_a_log_without_a_whole_tree_is_refused(tmp_path: Path, lines: list[str], word: str) -> None:
    path = tmp_path / "nccl.log"
    path.write_text("\n".join(lines))
    with pytest.raises(FormatError, match=word):
        import_topology(path)
