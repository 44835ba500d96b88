"""The JSON of every command is as its schema says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from harness.json_schema_judge import faults
from samples.logs.nccl_logs import curve, ranks, table
from treadle.cli.main import main
from treadle.cli.settings.json_schema import described_commands, json_schema
from treadle.schedules.collective import CollectiveKind

PLANS = {
    "ring": "ring:4 allgather",
    "two": "'dgx_a100(2, 2)' allreduce",
    "routes": "torus:3x3 alltoall --algorithm routes --max-flows 2",
    "exchange": "torus:3x3 alltoall",
    "large": "dgx_a100:64 allgather",
    "steps": "torus:3x3 allreduce --algorithm bfb",
    "nvls": "'dgx_h100(1, nvls=True)' allreduce",
    "circle": "ring:4 allgather --algorithm ring",
    "leaves": "leaf_spine:2,2 allgather",
}
TEXTS = (
    "two --to msccl-xml",
    "ring --to cpu-xml",
    "circle --to nccl-graph",
    "routes --to routes-json",
    "ring --to forestcoll-xml",
)
JOBS = """
[[job]]
kind = "allreduce"
size = "8MB"

[[job]]
kind = "alltoall"
size = "2MB"
"""
CASES = """
solve ring:4 allgather
solve dgx_a100:2 allgather -o new.plan
solve mi250:2 allgather --trees 2 --ranks 0-7,16-23
solve dgx_a100:2 broadcast --root 3
solve ring:4 allgather --weights 3,1,1,1
solve ring:4 allreduce --algorithm ring
solve torus:3x3 allreduce --algorithm bfb
solve torus:3x3 alltoall
solve ring:4 allgather --size 1K,1M --algorithm bfb,ring --cost-model reference -o new.plan
solve torus:3x3 alltoall --algorithm routes --max-flows 2
solve dgx_a100:64 allgather
solve 'dgx_h100(1, nvls=True)' allreduce
solve 'dgx_h100(1, nvls=True)' broadcast --multicast
solve ring:8 allgather --ranks 0,4 --forward
bound dgx_a100:2 allgather
bound ring:4 broadcast
bound 'dgx_h100(1, nvls=True)' allreduce
bound torus:3x3 alltoall
bound generalized_kautz:4,20 alltoall --method fleischer
bound torus:3x3 alltoall --method cut
bound ring:4 allgather --weights 3,1,1,1
bound ring:8 allgather --ranks 0,4 --forward
bound complete:4 --jobs jobs.toml
bound ring:4 allgather --size 1K,1M
bound dgx_a100:2 allreduce --size 1K,1M --cost-model nccl-ampere
solve complete:4 --jobs jobs.toml -o new.jobs
verify jobs.plans
bound 'with_host_bottleneck(torus(3, 3), bandwidth="1B/s")' alltoall
verify ring.plan
verify two.plan --topology 'dgx_a100(2, 2)'
verify exchange.plan
verify routes.plan
verify large.plan
verify msccl-xml.text
verify cpu-xml.text
verify nccl-graph.text
verify routes-json.text
verify forestcoll-xml.text
verify forestcoll-xml.text --topology ring:4
simulate forestcoll-xml.text --topology ring:4 --size 1K
repair two.plan --node box0.nic1 -o new.plan
repair ring.plan --link n0--n1 --size 1MB
repair large.plan --link box0.gpu0--box0.nic0
harden ring.plan
harden leaves.plan --failures nodes --trim
lower two.plan --to msccl-xml -o new.text
lower ring.plan --to cpu-xml -o new.text
lower ring.plan --to mscclpp-json -o new.text
lower circle.plan --to nccl-graph -o new.text
lower large.plan --to cpu-xml --rank 7 -o new.text
lower routes.plan --to routes-json -o new.text
lower nvls.plan -o new.text
run ring.plan --size 1K,4K --iterations 1
run nvls.plan --size 1K --iterations 1
draw ring:4 -o ring.svg
draw ring.plan -o plan.svg
report ring.plan -o page.html
simulate ring.plan --size 1K
retune ring.plan --cost-model reference --size 1K,1M -o new.plan
simulate ring:4 allreduce --size 1K,1M --trace trace.json
simulate ring:4 allgather --size 8B --alpha 0us --slices 1
compare ring:4 allgather
compare 'dgx_a100(2, 2)' allreduce --algorithms forestcoll,ring,bfb
compare torus:3x3 alltoall --algorithms pairwise,routes
compare 'dgx_h100(1, 2)' allreduce
compare 'dgx_h100(1, 2)' allreduce --size 1M
compare ring:4 allgather --algorithms ring,bfb --size 1K,1M --picture times.svg
compare ring:4 allgather --with ring.plan --algorithms ring --size 1K,1M
algorithms
algorithms bfb
train gpt2 --fabric ring:4 --mesh dp=4 --gpu a100 --sequence 64 --schedule treadle,bound --workload step.toml
train gpt2 --fabric dgx_a100_flat:1 --mesh fsdp=8 --gpu a100 --sequence 64 --schedule treadle --calibrate 10ms
capture gemma-2-2b --tokens 16K -o graph.json
routes torus:3x3 --layers 2 -o routes.json
routes routes.plan -o routes.csv
design --nodes 16 --degree 4 --alltoall bound --no-cache -o new.plan --cabling cables.csv
design --nodes 8 --degree 2 --no-cache --reconfiguration-delay 1ms
design --nodes 8 --degree 2 --no-cache --search 5
design --nodes 8 --degree 2 --no-cache --rack-size 4 --ocs 6,10 --cabling cables.csv
resilience torus:3,3 --cables 1 --nodes 1 --samples 2
design --nodes 8 --degree 2 --no-cache --grow 9 --changes moves.csv
design --nodes 8 --degree 2 --no-cache --bidirectional --reconfigure ring:8
design --nodes 8 --degree 2 --no-cache --against --ocs 64,10
cabling list torus:4,4 --rack-size 4 --ocs 8 -o cables.csv
topology list kautz
topology show dgx_a100:2
topology show kautz:2,2
topology show path:3
topology show 'random_regular_digraph(40, 3)'
testbed ring:4 --dry-run
calibrate run.json
reproduce
reproduce table-3.5
reproduce figure-4.1
reproduce figure-3.6
config
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schema")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for name, problem in PLANS.items():
            assert main(["solve", *shlex.split(problem), "-q", "-o", f"{name}.plan"]) == 0
        for text in TEXTS:
            name, _, target = text.split()
            assert main(["lower", f"{name}.plan", "--to", target, "-q", "-o", f"{target}.text"]) == 0
        (path / "jobs.toml").write_text(JOBS, encoding="utf-8")
        assert main(["solve", "complete:4", "--jobs", "jobs.toml", "-q", "-o", "jobs.plans"]) == 0
    return path


def judged(argv: list[str], capsys: pytest.CaptureFixture[str], status: int = 0) -> dict[str, Any]:
    """The command's JSON, which is as its schema says."""
    assert main([*argv, "--json"]) == status
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    name = "-".join(argv[:2]) if argv[0] in ("topology", "cabling") else argv[0]
    if "--jobs" in argv or argv[1:2] == ["jobs.plans"]:
        name += "-jobs"
    if argv[0] == "solve" and "--size" in argv:
        name += "-sizes"
    schema = json_schema(name)
    assert next(iter(value.items())) == ("schema", f"{name}/1")
    assert faults(value, schema, schema) == []
    return value


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_output_is_as_its_schema_says(
    case: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    if case.startswith("calibrate"):
        assert main(["run", "ring.plan", "--size", "1K..64K", "--json"]) == 0
        (folder / "run.json").write_text(capsys.readouterr().out)
    judged(shlex.split(case), capsys)


def test_exact_synthesis(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ortools", reason="CP-SAT: ortools is not installed")
    judged(shlex.split("pareto ring:4 allgather --max-steps 3"), capsys)
    judged(shlex.split("pareto ring:4 allgather --trees 1"), capsys)


def test_a_log_of_others(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = sorted((repository.parent / "shared" / "samples").glob("nccl_log_excerpt_*"))
    if not samples:
        pytest.skip("there are no samples of logs")
    schema = json_schema("diagnose")
    for sample in samples:
        main(["diagnose", str(sample), "--json"])
        out = capsys.readouterr().out
        if out:
            assert faults(json.loads(out), schema, schema) == [], sample


@pytest.mark.parametrize(
    "fabric", ["rail_optimized:2", 'with_failed_links(rail_optimized(2), "box0.gpu3--rail3")']
)
def test_a_judged_log(fabric: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "nccl.log"
    log.write_text("\n".join([*ranks(2, 8), *table(CollectiveKind.ALLREDUCE, 16, curve(216))]) + "\n")
    found = judged(["diagnose", str(log), "--topology", fabric], capsys)
    ring, optimum = found["judgements"][0]["yardsticks"]
    assert ring["binds"] == "the NICs of a box"
    is_even = fabric == "rail_optimized:2"
    assert (optimum["binds"] == "dual prices") is not is_even
    assert ("cut_links" in optimum, "priced_links" in optimum) == (is_even, not is_even)
    log.write_text(log.read_text().replace("NVIDIA A100", "some GPU"))
    found = judged(["diagnose", str(log)], capsys, status=2)
    assert "--topology" in found["missing"]


def test_schemas_are_complete_in_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    names = capsys.readouterr().out.split()
    assert names == list(described_commands())
    for name in names:
        assert main(["schema", name]) == 0
        schema = json.loads(capsys.readouterr().out)
        assert all(one.get("description") for one in schema["properties"].values())
        text = json.dumps(schema)
        assert all(f'"{word.split(chr(34))[0]}": ' in text for word in text.split("#/$defs/")[1:])
    assert main(["schema", "slove"]) == 2
    assert "did you mean solve?" in capsys.readouterr().err
