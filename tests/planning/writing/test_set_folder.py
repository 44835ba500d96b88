"""Folders of texts: whole or not at all, joined by other plans' sets, and loaded by what lies in them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from samples.plan_sets import plan_set
from treadle.errors import FormatError
from treadle.planning import LoweredSet, lower_set, save_set

GATHER = ("dgx_a100:1", "allgather", ("one-shot", "ring"), (10001,))
REDUCE = ("dgx_a100:1", "allreduce", ("halving-doubling", "ring"), (2**20,))


def made(case: tuple[Any, ...] = GATHER, **options: Any) -> LoweredSet:
    return lower_set(plan_set(*case), instances=1, **options)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_what_would_mislead_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    folder, foreign, file = tmp_path / "texts", tmp_path / "foreign", tmp_path / "file"
    save_set(folder, made(label="a", profile="legacy"))
    foreign.mkdir()
    (foreign / "mine.txt").touch()
    file.touch()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for words, place, lowered in (
        ("are for the same calls; narrow one", folder, made(label="b", profile="legacy")),
        ("a runtime reads one kind", folder, made(REDUCE, label="b")),
        ("5 files, the legacy runtime reads 4", folder, three_more()),
        ("contains 'mine.txt' and no set", foreign, made()),
        ("is a file; name a folder", file, made()),
    ):
        with pytest.raises(FormatError, match=words):
            save_set(place, lowered)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def three_more() -> LoweredSet:
    case = ("dgx_a100:1", "allreduce", ("one-shot", "halving-doubling", "ring"), (8192, 2**20))
    return made(case, label="b", profile="legacy")


@pytest.mark.parametrize(
    ("words", "damage"),
    [
        (
            "was changed since the set was written",
            lambda told, folder: (folder / told["file"]).write_text("<algo>"),
        ),
        ("cannot be read as a set", lambda told, folder: (folder / told["file"]).unlink()),
        ("outside the folder", lambda told, _: told.update(file="../x.xml")),
        ("cannot be read as a set", lambda told, _: told.update(ranks="many")),
        ("cannot be read as a set", lambda told, _: told.pop("chunks")),
        ("cannot be read as a set", lambda told, _: told.update(collective="gossip")),
    ],
)
def test_a_damaged_set_is_not_joined(words: str, damage: Any, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    save_set(folder, made(label="a"))
    told = json.loads((folder / "set.json").read_text())
    damage(told["texts"][0], folder)
    (folder / "set.json").write_text(json.dumps(told))
    with pytest.raises(FormatError, match=words):
        save_set(folder, made(REDUCE, label="b"))


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"treadle": "set", "version": 2, "texts": []}', "\x00"])
def test_a_manifest_of_another_kind_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text(content)
    with pytest.raises(
        FormatError, match=r"set\.json: (cannot be read as a set|expected a set of version 1)"
    ):
        save_set(tmp_path, made())


def test_a_failed_rename_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "texts"
    save_set(folder, made(label="a"))
    before, rename = names(folder), os.rename

    def failing(source: Path, target: Path) -> None:
        if source.name.endswith(".partial"):
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(FormatError, match="No space left"):
        save_set(folder, made(REDUCE, label="b"))
    assert names(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        ({}, {"NCCL_MSCCL_ENABLE": "1", "MSCCL_ALGO_DIR": "{}/texts", "MSCCL_SCHEDULER": "none"}),
        ({"profile": "rccl"}, {"RCCL_MSCCL_FORCE_ENABLE": "1", "MSCCL_ALGO_DIR": "{}/texts"}),
        (
            {"profile": "legacy"},
            {
                "NCCL_ALGO": "MSCCL,RING,TREE",
                "MSCCL_XML_FILES": "{0}/texts/plan.01.0B-9.77KB.xml:{0}/texts/plan.02.9.77KB-.xml",
            },
        ),
        ({"to": "mscclpp-json"}, {"MSCCLPP_NCCL_LIB_PATH": "libnccl.so.2", "PYTHONPATH": "{}:before"}),
    ],
)
def test_the_loader_sets_what_the_runtime_needs(
    options: dict[str, str], variables: dict[str, str], tmp_path: Path
) -> None:
    """For a command, and for the shell that evaluates what it prints; in a folder that was moved since."""
    folder = tmp_path / 'it\'s $HOME "moved"'
    save_set(tmp_path / "texts", made(**options))
    (tmp_path / "texts").rename(folder)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": "before"}
    # what is preloaded is not here
    shown = 'for v in NCCL_ALGO $1; do eval "echo \\"$v=\\$$v\\""; done'
    lines = [f'eval "$(sh "$0" | grep -v LD_PRELOAD)"; {shown}']
    if "to" not in options:
        lines.append('sh "$0" sh -c "$2" "" "$1"')
    for line in lines:
        script = ["sh", "-c", line, str(folder / "load.sh"), " ".join(variables), shown]
        done = subprocess.run(script, capture_output=True, text=True, env=environment, check=True)
        found = dict(one.split("=", 1) for one in done.stdout.splitlines())
        assert {name: found[name] for name in variables} == {
            name: value.format(folder) for name, value in variables.items()
        }


def test_a_folder_with_a_colon_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    save_set(folder, made())
    done = subprocess.run(["sh", folder / "load.sh", "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "without colon" in done.stderr
