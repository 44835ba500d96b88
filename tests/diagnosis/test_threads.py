"""Verdicts on public threads that a maintainer, or at last their reporter, answered (threads.toml).

Every third thread was kept back while the rules were written.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from tools.records import read_rows

from samples.logs.nccl_logs import info, ranks, table
from treadle.api.diagnose import diagnose
from treadle.diagnosis.log import TESTS
from treadle.diagnosis.verdict import Outcome

THREADS = tomllib.loads(Path(__file__).with_name("threads.toml").read_text("utf-8"))["thread"]


def said(facts: dict[str, Any], folder: Path) -> tuple[Outcome, list[str]]:
    """Return the verdict on a table, and the names of the causes and explanations."""
    kind = TESTS[facts.get("test", "all_reduce")]
    log = ["mpirun " + " ".join(f"-x {one}" for one in facts.get("settings", []))]
    log += [f"NCCL version {facts['version']}"] if "version" in facts else []
    log += [info(line) for line in facts.get("lines", [])]
    log += ranks(facts["hosts"], facts["gpus"], facts["gpu"])
    if facts["rows"]:
        log += table(kind, facts["hosts"] * facts["gpus"], [(size, busbw) for size, busbw in facts["rows"]])
    else:
        log += [info("Init COMPLETE")]
    path = folder / "nccl.log"
    path.write_text("\n".join(log) + "\n", "utf-8")
    nics = {"nics": str(facts["nics"]), "nic_bandwidth": int(facts["nic"] * 1e9)} if "nics" in facts else {}
    found = diagnose(path, **nics)  # type: ignore[arg-type]
    causes = [one.name for one in found.causes]
    if not found.checked_tables:
        return Outcome.CANNOT_SAY, causes
    verdict = found.checked_tables[0].verdict
    return verdict.outcome, [*causes, *(one.name for one in verdict.explanations)]


def results(folder: Path) -> dict[str, list[tuple[str, str, bool]]]:
    """Return the answer, our verdict and whether the cause is among those listed, by thread and table."""
    return {
        thread["address"]: [
            (facts["answer"], str(outcome), facts.get("cause") in (None, *causes))
            for facts in thread["tables"]
            for outcome, causes in [said(facts, folder)]
        ]
        for thread in THREADS
    }


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str, bool]]]:
    return results(tmp_path_factory.mktemp("threads"))


def test_at_least_nine_of_ten_threads_are_right(verdicts: dict[str, list[tuple[str, str, bool]]]) -> None:
    assert len(verdicts) >= 40
    wrong = [name for name, rows in verdicts.items() if any(answer != ours for answer, ours, _ in rows)]
    assert len(wrong) * 10 <= len(verdicts), wrong


def test_no_healthy_value_is_called_slow(verdicts: dict[str, list[tuple[str, str, bool]]]) -> None:
    pairs = [(answer, ours, name) for name, rows in verdicts.items() for answer, ours, _ in rows]
    assert not [name for answer, ours, name in pairs if answer == "normal" and ours == "slow"]


def test_known_causes_are_listed(verdicts: dict[str, list[tuple[str, str, bool]]]) -> None:
    """All but nccl#307: half of the NICs' speed looks like no GPUDirect RDMA there."""
    missing = {name for name, rows in verdicts.items() if not all(listed for *_, listed in rows)}
    assert missing <= {"NVIDIA/nccl#307"}


def test_the_record_lists_every_thread_and_verdict(verdicts: dict[str, list[tuple[str, str, bool]]]) -> None:
    rows = {row[0]: row[2:] for row in read_rows("threads", "Threads")}
    for thread in THREADS:
        address = thread["address"]
        repository, _, number = address.partition("#")
        columns = zip(*((answer, ours) for answer, ours, _ in verdicts[address]), strict=True)
        link = f"[{address}](https://github.com/{repository}/issues/{number})"
        assert rows[link] == [", ".join(column) for column in columns]
