"""Commands of tools/values.txt with a word changed at random: each gives its recorded result or message."""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
import shlex
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from tools.transcripts import masked
from tools.values import Block, blocks, load

from harness.changes import LATE, TARGET, compare, in_time, kept
from treadle.cli.main import main

N_CHANGES, MOST_S, MOST_CPU = 12, 0.3, 8.0
"""Changes per command; CPU seconds that each may take, and the recorded CPU that the command may have."""
FABRICS = ("ring:4", "torus:2,3", "complete:3", "dgx_a100:1", "mi250:2", "fat_tree:2", "rail:2,2")
ODD = ("", "0", "-1", "1.5", "nan", "x", "2", "7", "1K", "25GB/s", "3us", "allreduce", "none.json", *FABRICS)


def quick_blocks() -> list[Block]:
    """Blocks whose commands are all quick, and run nothing in other processes."""
    cpu = {line: record["cpu"] for line, record in load().items()}
    others = ("run", "testbed", "execute", "schema", "config", "algorithms")
    slow = {line for line in cpu if cpu[line] > MOST_CPU or line.split()[0] in others}
    return [block for block in blocks() if not slow.intersection(block.commands)]


def verb_of(words: Sequence[str]) -> str:
    return " ".join(words[: 1 + (words[0] == "topology")])


def options_of() -> dict[str, list[list[str]]]:
    """The options of each command in these blocks, with their values."""
    found: defaultdict[str, list[list[str]]] = defaultdict(list)
    for line in [line for block in quick_blocks() for line in block.commands]:
        words = shlex.split(line)
        verb = verb_of(words)
        for place, word in enumerate(words):
            if word.startswith("-") and word != "-o":
                value = words[place + 1 : place + 2]
                option = [word, *value] if value and not value[0].startswith("-") else [word]
                found[verb] += [option] if option not in found[verb] else []
    return found


OPTIONS = options_of()


def changed(words: Sequence[str], draw: random.Random) -> list[str]:
    """Return a command with a word dropped, replaced or misspelt, or with an option of another command."""
    words = list(words)
    at = draw.randrange(1, len(words))
    letter = draw.randrange(len(words[at]) + 1)
    others = OPTIONS[verb_of(words)]
    known = [option for option in others if option[0] == words[at - 1]]
    match draw.randrange(9):
        case 0:
            del words[at]
        case 1 | 2:
            words[at] = draw.choice(ODD)
        case 3:
            end = letter + draw.randrange(2)
            words[at] = words[at][:letter] + draw.choice(["", "0", "-", ",", "x"]) + words[at][end:]
        case 4 | 5 if known:
            words[at] = draw.choice(known)[-1]
        case _:
            words += draw.choice(others or [["--json"]])
    return words


def said(words: Sequence[str]) -> str:
    """Return the exit status of a command, a hash of its output, and its message."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as left:
            status = int(str(left.code))
    if status == 130:  # interrupted by the recorder's timer
        raise KeyboardInterrupt
    text = masked(out.getvalue())
    return f"{status} {hashlib.sha256(text.encode()).hexdigest()[:12]} {err.getvalue().strip()[:400]}"


@pytest.mark.parametrize("block", quick_blocks(), ids=lambda block: block.commands[-1])
def test_changed_commands_say_what_they_said(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    record = kept("changed_commands")
    for command, text in block.steps:
        if command.startswith("write "):
            Path(command.removeprefix("write ")).write_text(text, encoding="utf-8")
            continue
        words, draw, found = shlex.split(command), random.Random(command), list[str]()
        if TARGET:  # an interrupted first import would leave modules half-loaded
            said(words)
        for k in range(N_CHANGES):
            others = changed(words, draw)
            is_late = not TARGET and record[command][k].endswith(LATE)
            result = LATE if is_late else in_time(partial(said, others), MOST_S)
            found.append(f"{shlex.join(others)}: {result}")
        said(words)  # its own files, for the commands after it
        compare("changed_commands", {command: found})
