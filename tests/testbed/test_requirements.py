"""Without root or the tools the testbed says so, with the status of a missing dependency."""

from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.testbed import network


def test_without_root_nothing_is_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(network.os, "geteuid", lambda: 1000)
    assert main(["testbed", "ring(4)"]) == 5
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "treadle: the testbed cannot run here: network namespaces need root\n"


def test_other_systems_and_absent_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network.os, "geteuid", lambda: 0)
    monkeypatch.setattr(network.shutil, "which", lambda _: None)
    reason = network.missing_requirement()
    assert reason is not None
    if network.sys.platform == "linux":
        assert "ip is not installed" in reason
    monkeypatch.setattr(network.sys, "platform", "darwin")
    reason = network.missing_requirement()
    assert reason == "network namespaces need Linux, this is darwin"


def test_links_with_a_delay_need_the_device_that_makes_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(network.sys, "platform", "linux")
    monkeypatch.setattr(network.os, "geteuid", lambda: 0)
    monkeypatch.setattr(network.shutil, "which", lambda name: name)
    monkeypatch.setattr(network, "TUN_DEVICE", tmp_path / "tun")
    assert network.missing_requirement(with_delay=True) == f"links with a delay need {tmp_path / 'tun'}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a TOPOLOGY, --plan or --clean"),
        (["ring(4)", "--rate", "100"], "has no unit"),
        (["ring(4)", "--dry-run", "--rate", "0Mbit/s"], "more than 0"),
        (["dgx_h100(1)", "--dry-run"], "is a switch"),
        (["ring(4)", "--collectives", "gossip"], "gossip"),
        (["ring(4)", "--delay", "5"], "has no unit"),
        (["ring(4)", "--crossovers"], "give links a --delay"),
    ],
)
def test_bad_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["testbed", *arguments]) == 2
    assert message in capsys.readouterr().err
