"""What shells offer: the script in a real bash, and the candidates in process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from child_processes import finished
from treadle.cli.completion import candidates, split_line
from treadle.cli.main import main


def offered(line: str) -> list[str]:
    words, word = split_line(line)
    return list(candidates(words, word))


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("treadle so", ["solve"]),
        ("treadle --ver", ["--version"]),
        ("treadle --show-completion ", ["bash", "fish", "zsh"]),
        ("treadle solve dgx_a", ["dgx_a100:", "dgx_a100_flat:"]),
        ("treadle solve diam", ["diamond"]),
        ("treadle solve dgx_a100:2 reduce", ["reduce", "reduce-scatter"]),
        ("treadle solve dgx_a100:2 alltoall --algorithm ro", ["routes"]),
        ("treadle solve ring:4 allreduce --algorithm ro", ["routed-direct"]),
        ("treadle solve ring:4 allgather --algor", ["--algorithm"]),
        ("treadle simulate ring:4 allgather --forwarding ", ["cut-through", "store-and-forward"]),
        ("treadle simulate ring:4 allgather --forwarding=st", ["--forwarding=store-and-forward"]),
        ("treadle lower x.plan --to msccl", ["msccl-xml", "mscclpp-json"]),
        ("treadle bound ring:4 allgather --unit Gb", ["Gbit/s"]),
        ("treadle bound ring:4 alltoall --method fl", ["fleischer"]),
        ("treadle compare torus:3x3 a2a --algorithms pairwise,ews", ["pairwise,ewsp"]),
        ("treadle topology sh", ["show"]),
        ("treadle topology show slim", ["slimfly:"]),
        ("treadle topology show x --format js", ["json"]),
        ("treadle solve 'torus(4, 4)' allg", ["allgather"]),
        ("treadle nothing ", []),
        ("treadle solve ring:4 allgather surplus", []),
        ("treadle run --redop ma", ["max"]),
        ("treadle run diam", ["diamond"]),
        ("treadle bound star:3 allgather --without ", ["n0", "n1", "n2"]),
        ("treadle bound star:3 allgather --without n2,n0--", ["n2,n0--n1", "n2,n0--n2"]),
        ("treadle simulate star:3 allgather --without=n1->n", ["--without=n1->n0"]),
        ("treadle bound two.xml allgather --without n", []),
        ("treadle bound ring:12 allgather --mesh ", ["2,6", "3,4", "4,3", "6,2"]),
        ("treadle compare ring:12 allgather --mesh 2", ["2,6"]),
        ("treadle bound two.xml allgather --mesh ", []),
        ("treadle simulate ring:8 allgather --mesh dp=2,tp=4 --axes ", ["dp", "tp"]),
        ("treadle solve ring:8 allgather --mesh=dp=2,pp=2,tp=2 --axes tp,", ["tp,dp", "tp,pp"]),
        ("treadle run ring:8 allgather --mesh 2,4 --axes=", ["--axes=0", "--axes=1"]),
        ("treadle run ring:8 allgather --mesh 2,x --axes ", []),
        ("treadle run ring:8 allgather --axes ", []),
        ("treadle bound torus: allgather --without n", []),
    ],
)
def test_candidates(line: str, some: list[str]) -> None:
    assert sorted(offered(line)) == sorted(some)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_installed_once_where_the_shell_looks(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bashrc").write_text("alias a=b")
    for _ in range(2):
        assert main(["--install-completion", shell]) == 0
    assert shell in capsys.readouterr().out
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    if shell == "bash":
        lines = (tmp_path / ".bashrc").read_text().splitlines()
        assert lines[0] == "alias a=b"
        assert len(lines) == 2
        done = finished(["bash", "--norc", "-c", f"source {tmp_path}/.bashrc; complete -p treadle"])
        assert done.stdout == "complete -o nosort -F _treadle_completion treadle\n"
    elif shell == "zsh":
        assert written == {".bashrc", ".zfunc/_treadle", ".zshrc"}
    else:
        assert written == {".bashrc", ".config/fish/completions/treadle.fish"}


def test_a_strange_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show-completion", "tcsh"]) == 2
    assert "expected one of bash, zsh, fish" in capsys.readouterr().err
