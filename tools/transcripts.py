"""Commands with all that they print, kept as texts: `python -m tools.transcripts FILE...` writes them anew.

A transcript is read as its commands, lines that begin with `$ `, and replayed in a folder of its own, with
nothing kept from before and on a terminal of 80 columns. Besides `treadle` it knows `write FILE`, with the
file's lines behind `> `, and `cat FILE`. Of texts and pages that a command writes a hash is kept. What
depends on the machine is left out: measured seconds, the folder, and pictures within pages.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from treadle.cli.main import main as treadle

_OWN_FOLDERS = ("TREADLE_CACHE_DIR", "XDG_CONFIG_HOME")
_SHOWN_LINES, _SHOWN_CHARACTERS = 24, 160
"""Of a file, and of a line of it; of the rest a hash tells whether it changed."""

_HASHED = {".csv", ".html", ".json", ".py", ".sh", ".toml", ".txt", ".xml"}
_PICTURES = re.compile(rb"<svg.*?</svg>|data:[a-z]+/[^\"']*", re.DOTALL)

_MEASURED = (
    (re.compile(r" \([0-9.]+ CPU s\)"), ""),
    (re.compile(r"^CPU s .*\n", re.MULTILINE), ""),
    # CPU s of comparisons, and of plans for failures
    (re.compile(r"[0-9]+\.[0-9]{2}(?= +(?:yes$|[0-9]{4}-))", re.MULTILINE), "...."),
    (re.compile(r'"seconds": \{[^{}]*\}'), '"seconds": {}'),
    (re.compile(r'"seconds": [0-9.e-]+'), '"seconds": 0'),
)


def replayed(text: str) -> str:
    """A transcript as it would be written now; seeds and clocks are not its concern."""
    with (
        tempfile.TemporaryDirectory(prefix="treadle-transcript-") as folder,
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, {"COLUMNS": "80", **dict.fromkeys(_OWN_FOLDERS, f"{folder}/own")}),
    ):
        said = "".join(_said(command, lines) for command, lines in _commands(text))
    return masked(said.replace(os.path.realpath(folder), "FOLDER").replace(folder, "FOLDER"))


def masked(said: str) -> str:
    """What commands print, without what is measured."""
    for pattern, words in _MEASURED:
        said = pattern.sub(words, said)
    return said


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command, and the lines that it is to write."""
    command, lines = "", list[str]()
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, lines
            command, lines = line[2:], []
        elif line.startswith("> "):
            lines.append(line[2:])
    if command:
        yield command, lines


def _said(command: str, lines: list[str]) -> str:
    name, *words = shlex.split(command)
    if name == "write":
        Path(words[0]).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return "".join([f"$ {command}\n", *(f"> {line}\n" for line in lines), "\n"])
    if name == "cat":
        return f"$ {command}\n{_shown(Path(words[0]))}\n"
    assert name == "treadle", f"{command}: expected treadle, write or cat"
    out, err = io.StringIO(), io.StringIO()
    before = _hashes()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = treadle(words)
    said = [text and text.removesuffix("\n") + "\n" for text in (out.getvalue(), err.getvalue())]
    wrote = [f"wrote {file} {value}\n" for file, value in _hashes().items() if before.get(file) != value]
    return "".join([f"$ {command}\n", *said, *wrote, f"[{status}]\n\n"])


def _hashes() -> dict[str, str]:
    """Of all texts below the folder."""
    files = sorted(path for path in Path().rglob("*") if path.suffix in _HASHED and path.is_file())
    return {
        path.as_posix(): hashlib.sha256(_PICTURES.sub(b"", _without_seconds(path.read_bytes()))).hexdigest()[
            :16
        ]
        for path in files
        if path.parts[0] != "own"
    }


def _without_seconds(data: bytes) -> bytes:
    return re.sub(rb'[0-9]+\.[0-9]+(?=( CPU)? s\b)|(?<="seconds": )[0-9.e-]+', b"", data)


def _shown(path: Path) -> str:
    """The first lines of a file, and a hash of it if there are more."""
    if not path.exists():
        return "no such file\n"
    data = path.read_bytes()
    lines = [line.rstrip()[:_SHOWN_CHARACTERS] for line in data.decode("utf-8", "replace").splitlines()]
    if len(lines) > _SHOWN_LINES or any(len(line) == _SHOWN_CHARACTERS for line in lines):
        lines = [*lines[:_SHOWN_LINES], f"... {len(lines)} lines, {hashlib.sha256(data).hexdigest()[:16]}"]
    return "".join(f"{line}\n" for line in lines)


def main() -> int:
    """Write transcripts anew."""
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(replayed(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
