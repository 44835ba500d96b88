"""Candidates for each kind of option, and where scripts of completion go."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli import completion
from treadle.cli.completion import VARIABLE, candidates, complete, set_up, split_line
from treadle.options.verbs import VERBS
from treadle.planning import Packer, all_formats, schedulers


def offered(line: str) -> list[str]:
    words, word = split_line(line)
    return list(candidates(words, word))


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("", ([], "")),
        ("treadle", ([], "")),
        ("treadle ", ([], "")),
        ("treadle so", ([], "so")),
        ("treadle solve  ring:4\t", (["solve", "ring:4"], "")),
        ("treadle solve 'a b", (["solve"], "a b")),
        ("treadle solve 'a b' x", (["solve", "a b"], "x")),
        ("treadle solve #x", (["solve"], "#x")),
    ],
)
def test_lines_are_split_as_shells_do(line: str, split: tuple[list[str], str]) -> None:
    assert split_line(line) == split


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("treadle -", ["--version", "--install-completion", "--show-completion", "--help"]),
        ("treadle --install-completion z", ["zsh"]),
        ("treadle topology -", ["--help"]),
        ("treadle topology nothing x", []),
        ("treadle train switch-b", ["switch-base-256"]),
        ("treadle train gpt2 --gpu a100-", ["a100-40gb"]),
        ("treadle bound ring:4 alltoall --method ", sorted(completion._METHODS)),
        ("treadle bound ring:4 alltoall --unit GiB", ["GiB/s"]),
        ("treadle bound ring:4 allgather,re", []),
        ("treadle bound ring:4 allgather --without x--", []),
        ("treadle bound star:3 allgather --without n1--", ["n1--n0"]),
        ("treadle bound ring:7 allgather --mesh ", []),
        ("treadle bound ring:4 allgather --mesh ", ["2,2"]),
        ("treadle run ring:8 allgather --mesh a=2,b=4 --axes a,b,", []),
        ("treadle run ring:8 allgather --quiet --mesh a=2,b=4 --axes ", ["a", "b"]),
        ("treadle run ring:8 allgather -", []),
    ],
)
def test_candidates_of_options(line: str, some: list[str]) -> None:
    if line.endswith(" -") and not some:
        assert all(one.startswith("-") for one in offered(line))
        assert {"--help", "--mesh", "--quiet"} <= set(offered(line))
        return
    assert sorted(offered(line)) == some or offered(line) == some


def test_lists_of_names() -> None:
    assert offered("treadle solve ring:4 allgather --packer ") == [*Packer]
    assert offered("treadle lower x.plan --to ") == [one.name for one in all_formats()]
    assert offered("treadle solve x allgather --algorithm ") == [
        one.name for one in schedulers() if "allgather" in one.collectives
    ]
    assert offered("treadle solve --algorithm ") == [one.name for one in schedulers()]
    assert offered("treadle train --recompute ") == ["none", "attention", "full"]
    assert offered("treadle train --precision fp") == ["fp16", "fp8", "fp32"]


def printed(line: str, capsys: pytest.CaptureFixture[str], **environment: str) -> list[str]:
    assert complete({"COMP_LINE": line, VARIABLE: "bash"} | environment) == 0
    return capsys.readouterr().out.splitlines()


def test_a_bash_replaces_what_stands_after_its_last_break(capsys: pytest.CaptureFixture[str]) -> None:
    line = "treadle simulate star:3 allgather --without=n1->n"
    assert printed(line, capsys) == ["--without=n1->n0"]
    assert printed(line, capsys, COMP_WORDBREAKS=" =:") == ["n1->n0"]
    assert printed(line, capsys, COMP_WORDBREAKS=" :") == ["--without=n1->n0"]
    assert printed(line, capsys, COMP_WORDBREAKS=" =:", **{VARIABLE: "fish"}) == ["--without=n1->n0"]
    assert printed("treadle --", capsys) == [
        *("--help", "--install-completion", "--show-completion", "--version")
    ]
    assert printed("", capsys) == sorted({name.split()[0] for name in VERBS})


def test_no_more_than_400_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(402):
        (tmp_path / f"x{number:03}.plan").write_text("")
    found = printed("treadle verify x", capsys)
    assert (len(found), found[0], found[-1]) == (400, "x000.plan", "x399.plan")


def test_scripts_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in completion.SHELLS:
        assert set_up(["--show-completion", shell], {}) == 0
        assert capsys.readouterr().out == completion._SCRIPTS[shell]
    assert set_up([], {}) is None
    assert set_up(["solve", "--show-completion"], {}) is None
    assert set_up(["--show-completion", "bash", "zsh"], {}) == 2
    assert capsys.readouterr().err == (
        "treadle: --show-completion bash zsh: expected one of bash, zsh, fish after it\n"
    )
    assert set_up(["--install-completion", "fish"], {}) == 2
    assert capsys.readouterr().err == (
        "treadle: --install-completion: the variable HOME is not set; use --show-completion\n"
    )


def test_the_shell_is_the_one_that_started_this(monkeypatch: pytest.MonkeyPatch) -> None:
    for parent, own, shell in (
        ("zsh\n", "/bin/fish", "zsh"),
        ("make\n", "/bin/fish", "fish"),
        ("make\n", "", ""),
    ):
        monkeypatch.setattr(Path, "read_text", lambda self, encoding, parent=parent: parent)
        assert completion._shell({"SHELL": own} if own else {}) == shell


def test_start_up_files_are_added_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {"HOME": str(tmp_path)}
    line = "fpath+=~/.zfunc; autoload -Uz compinit; compinit\n"
    for before, after in (
        (None, line),
        ("", line),
        ("a", f"a\n{line}"),
        ("a\n", f"a\n{line}"),
        (line, line),
    ):
        (tmp_path / ".zshrc").unlink(missing_ok=True)
        if before is not None:
            (tmp_path / ".zshrc").write_text(before)
        assert set_up(["--install-completion", "zsh"], environment) == 0
        assert (tmp_path / ".zshrc").read_text() == after
    place = tmp_path / ".zfunc" / "_treadle"
    assert place.read_text() == completion._SCRIPTS["zsh"]
    said = f"zsh completes treadle once it is started again: {place}"
    assert capsys.readouterr().out.splitlines() == [said] * 5
    assert set_up(["--install-completion", "bash"], environment) == 0
    place = tmp_path / ".local/share/bash-completion/completions/treadle"
    assert place.read_text() == completion._SCRIPTS["bash"]
    assert (tmp_path / ".bashrc").read_text() == f'[ ! -f "{place}" ] || source "{place}"\n'
