"""Fabrics that logs show themselves: system trees of public cases, and what differs between hosts."""

from __future__ import annotations

from pathlib import Path

from samples.logs.nccl_logs import curve, ranks, system_tree, table
from treadle.api.diagnose import diagnose
from treadle.diagnosis.diagnosed import Diagnosis
from treadle.schedules.collective import CollectiveKind

ALLREDUCE = CollectiveKind.ALLREDUCE


def examined(folder: Path, lines: list[str]) -> Diagnosis:
    path = folder / "nccl.log"
    path.write_text("\n".join(lines) + "\n")
    return diagnose(path)


def test_hosts_that_show_another_box_are_taken_so(tmp_path: Path) -> None:
    other = [line.replace("NET[25.0]", "NET[12.5]") for line in system_tree(host=1)]
    log = [*ranks(2, 8), *system_tree(), *other, *table(ALLREDUCE, 16, curve(40))]
    assert "but node1 as its own tree shows" in examined(tmp_path, log).assumed[0]
    same = [*ranks(2, 8), *system_tree(), *system_tree(host=1), *table(ALLREDUCE, 16, curve(40))]
    assert examined(tmp_path, same).assumed[0] == "2 boxes like that of node0"
