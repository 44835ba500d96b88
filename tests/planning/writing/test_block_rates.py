"""Instances that texts have by default: no thread block moves more than one carries, where that can be."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import pytest

from treadle import planning
from treadle.formats.selection.block_rate import BLOCK_BYTES_PER_S
from treadle.schedules.plan import Plan, PlanEntry

NVSWITCH = "dgx_a100(1)"


def most_of_a_block(text: str) -> Fraction:
    """Part of the buffer that the busiest thread block of the first rank moves, by either format."""
    if text.startswith("<"):
        total = int(re.search(r'nchunksperloop="(\d+)"', text)[1])
        blocks = re.findall(r"<tb .*?</tb>", text.split("</gpu>")[0], re.DOTALL)
        return Fraction(max(sum(map(int, re.findall(r'cnt="(\d+)"', one))) for one in blocks), total)
    gpu = json.loads(text)["gpus"][0]
    moved = [
        sum(max(len(op.get("src_buff", ())), len(op.get("dst_buff", ()))) for op in block["ops"])
        for block in gpu["threadblocks"]
    ]
    return Fraction(max(moved), max(gpu["input_chunks"], gpu["output_chunks"]))


@pytest.mark.parametrize("to", ["mscclpp-json", "msccl-xml"])
@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
def test_blocks_of_a_box_move_no_more_than_they_carry(to: str, collective: str) -> None:
    """With one instance, one of 8 blocks of rank 0 has all that the rank sends."""
    plan = planning.solve(NVSWITCH, collective).plan
    one, chosen = planning.lower(plan, to=to, instances=1), planning.lower(plan, to=to)
    assert (one.instances, chosen.faults) == (1, ())
    assert most_of_a_block(one.text) * plan.algbw > BLOCK_BYTES_PER_S
    assert one.carried_algbw is not None
    assert one.carried_algbw < plan.algbw
    assert most_of_a_block(chosen.text) * plan.algbw <= BLOCK_BYTES_PER_S
    assert chosen.instances > 1
    assert chosen.carried_algbw is None
    assert set(one.supported[0].sizes) - set(chosen.supported[0].sizes) <= {1024, 2048, 4096, 8192}


def test_a_rate_that_blocks_do_not_carry_is_printed(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    from treadle.cli.main import main

    folder = tmp_path_factory.mktemp("rates")
    path, text = str(folder / "a.plan"), str(folder / "a.json")
    assert main(["solve", NVSWITCH, "allgather", "-o", path, "-q"]) == 0
    assert main(["lower", path, "--to", "mscclpp-json", "--instances", "8", "-o", text]) == 0
    # a block copies one of 64 chunks and puts it to 7 peers
    assert "note           its thread blocks carry 160 GB/s algbw at 20 GB/s each" in capsys.readouterr().out
    command = ["lower", path, "--to", "mscclpp-json", "-o", text]
    assert main([*command, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["instances"] == 32
    assert "thread_blocks_algbw_exact" not in values
    assert main([*command, "--instances", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["thread_blocks_algbw_exact"] == "80000000000/1"


def test_slow_links_small_sizes_and_given_chunks_have_one_instance() -> None:
    plan = planning.solve("ring:4", "allgather").plan
    assert planning.lower(plan, to="msccl-xml").instances == 1
    fast = planning.solve(NVSWITCH, "allgather").plan
    assert planning.lower(fast, to="msccl-xml", chunks=2).instances == 1
    small = PlanEntry(0, 2**16, fast.entries[0].schedule)
    of_small = Plan(fast.topology, fast.collective, (small,), fast.algorithm, fast.algbw)
    found = planning.lower(of_small, to="mscclpp-json")
    assert (found.instances, found.carried_algbw) == (1, None)
