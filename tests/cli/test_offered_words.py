"""Candidates for each kind of option, and where scripts of completion go."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli import completion
from treadle.cli.completion import VARIABLE, candidates, complete, split_line


def offered(line: str) -> list[str]:
    words, word = split_line(line)
    return list(candidates(words, word))


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


def printed(line: str, capsys: pytest.CaptureFixture[str], **environment: str) -> list[str]:
    assert complete({"COMP_LINE": line, VARIABLE: "bash"} | environment) == 0
    return capsys.readouterr().out.splitlines()


def test_no_more_than_400_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(402):
        (tmp_path / f"x{number:03}.plan").write_text("")
    found = printed("treadle verify x", capsys)
    assert (len(found), found[0], found[-1]) == (400, "x000.plan", "x399.plan")


def test_the_shell_is_the_one_that_started_this(monkeypatch: pytest.MonkeyPatch) -> None:
    for parent, own, shell in (
        ("zsh\n", "/bin/fish", "zsh"),
        ("make\n", "/bin/fish", "fish"),
        ("make\n", "", ""),
    ):
        monkeypatch.setattr(Path, "read_text", lambda self, encoding, parent=parent: parent)
        assert completion._shell({"SHELL": own} if own else {}) == shell
