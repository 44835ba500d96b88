"""Folders of texts: whole or not at all, joined by other plans' sets, and loaded by what lies in them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reference.runtime_selection import call_of, serves_mscclpp
from samples.plan_sets import plan_set
from treadle.errors import FormatError
from treadle.formats.format import find_format
from treadle.planning import LoweredSet, lower_set, save_set

GATHER = ("dgx_a100:1", "allgather", ("one-shot", "ring"), (10001,))
REDUCE = ("dgx_a100:1", "allreduce", ("halving-doubling", "ring"), (2**20,))


def made(case: tuple[Any, ...] = GATHER, **options: Any) -> LoweredSet:
    return lower_set(plan_set(*case), instances=1, **options)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_sets_of_other_plans_join_and_their_own_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    first = save_set(folder, made(label="a"))
    assert names(folder) == {"set.json", "load.sh", "texts/a.01.0B-9.77KB.xml", "texts/a.02.9.77KB-.xml"}
    both = save_set(folder, made(REDUCE, label="b"))
    assert [text.plan for text in both.texts] == ["a", "a", "b", "b"]
    assert both.texts[:2] == first.texts
    three = save_set(folder, made(label="a", in_place=True))
    assert [text.plan for text in three.texts] == ["a", "a", "a.in-place", "a.in-place", "b", "b"]
    again = save_set(folder, made(label="a", max_size_bytes="8K"))
    assert [text.max_bytes for text in again.texts if text.plan == "a"] == [8192]
    told = json.loads((folder / "set.json").read_text())
    assert [row["file"] for row in told["texts"]] == [text.file for text in again.texts]
    assert {row["algorithm"] for row in told["texts"]} == {"one-shot", "ring", "halving-doubling"}
    assert names(folder) == {"set.json", "load.sh", *(text.file for text in again.texts)}
    assert [path.name for path in tmp_path.iterdir()] == ["texts"]


def test_what_would_mislead_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    folder, foreign, file = tmp_path / "texts", tmp_path / "foreign", tmp_path / "file"
    save_set(folder, made(label="a", profile="legacy"))
    foreign.mkdir()
    (foreign / "mine.txt").touch()
    file.touch()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for words, place, lowered in (
        ("would serve the same calls; narrow one", folder, made(label="b", profile="legacy")),
        ("a runtime reads one kind", folder, made(REDUCE, label="b")),
        ("5 texts, the legacy runtime reads 4", folder, three_more()),
        ("holds 'mine.txt' and no set", foreign, made()),
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


class Recorded:
    """Stands for MSCCL++'s Python package, and keeps what it is given."""

    def __init__(self) -> None:
        self.plans: dict[str, Any] = {}
        self.select: Any = None
        names = ("float16", "bfloat16", "float32", "int32", "uint32")
        self.DataType = SimpleNamespace(**{name: name for name in names})
        self.ext = SimpleNamespace(AlgorithmCollectionBuilder=lambda: self)
        self.Algorithm = lambda name, plan, constraint: (name, plan, constraint)
        self.Algorithm.Constraint = lambda *sizes: sizes  # type: ignore[attr-defined]
        self.ExecutionPlan = lambda path, rank: (Path(path).read_text(), rank)

    def add_algorithm_builder(self, algorithm: tuple[str, Any, Any]) -> None:
        name, plan, constraint = algorithm
        assert constraint == (0, 0)
        self.plans[name] = plan

    def set_algorithm_selector(self, select: Any) -> None:
        self.select = select


def test_mscclpp_takes_the_plan_of_the_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module that the set brings, run with calls of all sizes about the edges."""
    folder, runtime = tmp_path / "texts", Recorded()
    case = ("dgx_a100:1", "allgather", ("one-shot", "forestcoll", "ring"), (10001, 2**20))
    save_set(folder, made(case, to="mscclpp-json", label="a"))
    saved = save_set(folder, made(REDUCE, to="mscclpp-json", label="b"))
    modules = {"mscclpp": runtime, "mscclpp.ext": runtime.ext}
    for name, module in modules.items():
        monkeypatch.setitem(__import__("sys").modules, name, module)
    monkeypatch.setenv("RANK", "3")
    scope = {"__file__": str(folder / "treadle_set.py")}
    exec((folder / "treadle_set.py").read_text(), scope)  # what a process imports
    assert len(runtime.plans) == len(saved.texts)
    assert {rank for _, rank in runtime.plans.values()} == {3}
    plans = {text.plan: plan_set(*(case if text.plan == "a" else REDUCE)) for text in saved.texts}
    taken = {text.file: 0 for text in saved.texts}
    for text in saved.texts:
        kind, last = plans[text.plan].collective.kind, 2**24 if text.max_bytes is None else text.max_bytes
        for edge in (text.min_bytes, last):
            for size in range(max(0, edge // 128 - 40) * 128, edge + 40 * 128, 128):
                message = size // 8 if kind == "allgather" else size
                call = call_of(kind.value, 8, size)
                request = SimpleNamespace(
                    collective=kind.value,
                    world_size=8,
                    rank=3,
                    message_size=message,
                    dtype="float32",
                    input_buffer=2**40,
                    output_buffer=2**41,
                )
                algorithms = {kind.value: {name: name for name in runtime.plans}}
                name = runtime.select(algorithms, request)
                able = [other for other in saved.texts if serves_mscclpp(other.data.decode(), call)]
                assert (name is not None) == bool(able)
                if name is not None:
                    (chosen,) = [other for other in able if other.name == name]
                    assert runtime.plans[name][0] == chosen.data.decode()
                    assert not chosen.fills_in or all(other.fills_in for other in able)
                    assert chosen.min_bytes <= size <= (chosen.max_bytes or size)
                    taken[chosen.file] += 1
                request.input_buffer = request.output_buffer + (3 * message if kind == "allgather" else 0)
                assert runtime.select(algorithms, request) is None
    assert all(taken.values())


def test_the_judge_follows_wrong_selectors_of_mscclpp() -> None:
    record, found = find_format("mscclpp-json"), made(to="mscclpp-json")
    files = dict(found.delivery.files)
    module = files["treadle_set.py"].decode()
    assert record.interpreted_set(found.files_by_range, files, None) == ()
    first, second = (text for text in found.files_by_range if not text.fills_in)
    for words, other in (
        ("too late", module.replace(f"{first.max_bytes},", "9600,")),
        ("too long", module.replace(f"{first.max_bytes},", "20000,")),
        ("too early", module.replace(f"{first.max_bytes},", "8999,").replace("10001,", "9000,")),
        ("of other chunks", module.replace("128, False", "256, False")),
        ("in place", module.replace("False, -1", "True, -1")),
        ("for a root", module.replace("False, -1", "False, 3")),
        (
            "names exchanged",
            module.replace(first.name, "x")
            .replace(second.name, first.name)
            .replace("'x'", f"'{second.name}'"),
        ),
        ("a file that is not there", module.replace(second.file, "texts/none.json")),
        ("no plan", module.replace(f"    ({first.file!r}", f"    # ({first.file!r}")),
    ):
        assert other != module, words
        assert record.interpreted_set(
            found.files_by_range, files | {"treadle_set.py": other.encode()}, None
        ), words
    with pytest.raises(FormatError, match="expected the table PLANS"):
        record.interpreted_set(found.files_by_range, {"treadle_set.py": b"x = 1\n"}, None)
