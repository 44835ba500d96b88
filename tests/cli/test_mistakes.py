"""A hundred and more typical mistakes of new users: one line on stderr, the right status, and the remedy."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from samples.box_files import nccl_xml
from treadle.cli.main import main

MISTAKES = """
# what is missing
2 | solve | TOPOLOGY is missing; expected a catalogue expression, e.g. dgx_a100:2, or a file
2 | solve ring:4 | COLLECTIVE is missing; expected one of allgather, | treadle solve ring:4 allreduce
2 | bound dgx_a100:2 --json | COLLECTIVE is missing
2 | compare | TOPOLOGY is missing
2 | simulate | PLAN|TOPOLOGY is missing
2 | simulate ring:4 | COLLECTIVE is missing; expected one of allgather,
2 | verify | FILE is missing; expected a plan, or a runtime file
2 | run | PLAN|TOPOLOGY is missing; expected a plan that solve wrote
2 | lower | PLAN is missing
2 | repair | PLAN is missing
2 | repair ring.plan | --link
2 | topology show | TOPOLOGY is missing
2 | topology export | TOPOLOGY is missing
2 | calibrate | FILE is missing
2 | diagnose | LOG is missing
2 | routes | TOPOLOGY is missing
2 | testbed | expected a TOPOLOGY, --plan or --clean
2 | design | --nodes N is missing
2 | design --nodes 64 | --degree D is missing: links out of (and into) each node
2 | pareto ring:4 allreduce | expected allgather or reduce-scatter
2 | pareto ring:4 allgather --trees 0 | expected trees and heights of at least 1
2 | pareto ring:4 allgather --max-steps 3 --trees 2 | leave out --max-steps
2 | lower ring.plan --to chakra | -o PREFIX
# what has changed places, and what is too much
2 | bound allreduce ring:4 | TOPOLOGY and COLLECTIVE have changed places; write: treadle bound ring:4
2 | compare all_gather ring:4 | changed places
2 | simulate allreduce ring:4 | changed places
2 | solve AllReduce 'torus(4, 4)' | write: treadle solve 'torus(4, 4)' AllReduce
2 | solve ring:4 allgather 8 | solve takes TOPOLOGY COLLECTIVE; left over: 8
2 | solve torus 4 4 | did you mean torus:4,4?
2 | solve torus, 4 4 | did you mean torus:4,4?
2 | topology show torus 4 4 | did you mean torus:4,4?
2 | bound torus(4, 4) allgather | quote an expression
2 | run ring.plan two.plan | COLLECTIVE: expected a fabric to solve for, and ring.plan is a plan
2 | lower ring.plan two.plan | lower takes PLAN; left over: two.plan
2 | topology list kautz ring | left over: ring
# commands
2 | slove ring:4 allgather | no command 'slove'; did you mean solve?
2 | verfy ring.plan | did you mean verify?
2 | Solve ring:4 allgather | did you mean solve?
2 | show ring:4 | did you mean topology show?
2 | ring:4 allreduce | 'ring:4' is a fabric; a command comes first
2 | allreduce ring:4 | 'allreduce' is a collective; a command comes first
2 | frobnicate | no command 'frobnicate'; 'treadle --help' lists them
2 | topology shw ring:4 | did you mean show?
2 | schema slove | did you mean solve?
2 | --show-completion tcsh | expected one of bash, zsh, fish
# options
2 | solve ring:4 allgather --algoritm bfb | has no option --algoritm; did you mean --algorithm?
2 | solve ring:4 allgather --max_trees 2 | did you mean --max-trees?
2 | solve ring:4 allgather --for-size 1GB | did you mean --size
2 | bound ring:4 allgather --nope | bound has no option --nope; 'treadle bound --help' lists them
2 | run ring.plan --sizes 1K | did you mean --size?
2 | solve ring:4 allgather -t | solve has no option -t
2 | bound ring:4 allgather -5 | a negative number means nothing here
2 | solve ring:4 allgather --trees | --trees needs a value: use exactly K trees per root
2 | solve ring:4 allgather -o --json | -o/--output: expected a value, found the option --json
2 | run ring.plan --size --dtype | expected a value, found the option --dtype
2 | verify '' | FILE: expected a file, found nothing
2 | simulate '' | PLAN|TOPOLOGY: expected a file, found nothing
2 | solve ring:4 allgather -o '' | -o/--output: expected a file, found nothing
2 | solve ring:4 allgather --json=yes | --json
# values
2 | solve ring:4 allgather --trees two | --trees 'two': expected an integer
2 | solve ring:4 allgather --trees 0 | expected 1 to 2**20, found 0
2 | solve ring:4 allgather --trees -1 | expected 1 to 2**20, found -1
2 | solve ring:4 allgather --max-trees 0 | expected 1 to 2**20
2 | bound ring:4 allgather --seed x | --seed 'x': expected an integer
2 | solve ring:4 allgather --form foo | --form 'foo'; expected one of auto, explicit, factored
2 | run ring.plan --dtype float | --dtype 'float'; did you mean float32 or float16? Expected one of float32,
2 | run ring.plan --redop xor | --redop 'xor'; expected one of sum
2 | run ring.plan --runtime cluster | expected one of in-process
2 | run ring.plan --iterations 0 | --iterations '0': expected at least 1
2 | simulate ring.plan --forwarding cutthrough | did you mean cut-through?
2 | simulate ring.plan --slices many | expected a number or auto
2 | topology show fabric.json --format yaml | unknown format 'yaml'
2 | bound ring:4 allgather --threads 0 | at least 1
2 | bound ring:4 allgather --unit GB | unit 'GB': expected one such as GB/s
2 | bound ring:4 alltoall --gap much | --gap 'much': expected a number
2 | design --nodes 8 --degree 2 --pick 99 --alltoall bound --no-cache | --pick 99: the frontier has
2 | bound box.xml allgather --gpu h101 | --gpu 'h101' is not known; did you mean h100
2 | bound box.xml allgather --links nominl | --links 'nominl': expected nominal or library; did you
2 | bound box.xml allgather --pcie ful | --pcie 'ful': expected near or full; did you mean full?
2 | bound box.xml allgather --boxes 2 --network rial | expected one-switch, rail, rails:K | did you mean rail?
2 | bound box.xml allgather --boxes 2 --network rail:4 | did you mean rails:4?
2 | bound box.xml allgather --boxes 2 --network leafspine:2,2 | did you mean leaf-spine:L,S?
2 | bound box.xml allgather --nic-bandwith 50GB/s | did you mean --nic-bandwidth?
2 | bound box.xml allgather --oversubscribe 4:1 | did you mean --oversubscription?
# units
2 | run ring.plan --size 64 | with a unit, such as 512B, 1K or 64MB, found '64'
2 | run ring.plan --size 1GB... | expected two sizes, as in 1K..1GB
2 | run ring.plan --size 1M-1G | expected two dots, as in 1M..1G
2 | run ring.plan --size 1G..1M | expected 0 < first <= last
2 | run ring.plan --size -1K | -1K
2 | run ring.plan --size '' | size
2 | run ring.plan --size 1KiBi | expected a size with a unit
2 | solve ring:4 allgather --time-limit 30 | time '30' has no unit
2 | solve ring:4 allgather --time-limit 0s | expected more than 0
2 | simulate ring.plan --alpha 10 | time '10' has no unit; write for instance 10us
2 | simulate ring.plan --reduction 25 | has no unit; write for instance 25GB/s
2 | run ring.plan --max-memory lots | expected a number with a unit
2 | bound 'ring(4, bandwidth="25")' allgather | bandwidth '25' has no unit; write for instance 25GB/s
2 | bound 'ring(4, bandwidth=25)' allgather | bandwidth needs a unit; write for instance bandwidth="25GB/s"
2 | bound ring(4,bandwidth=25GB/s) allgather | bandwidth
2 | solve ring:4 allgather --max-schedules 3 | give --size too
# names
2 | solve ring:4 gossip | unknown collective 'gossip'; expected one of allgather,
2 | solve ring:4 allreduc | unknown collective 'allreduc'; did you mean allreduce?
2 | solve tours:4,4 allreduce | did you mean torus? ('treadle topology list' shows the catalogue)
2 | solve a100:2 allreduce | did you mean dgx_a100
2 | solve 'tours(4, 4)' allreduce | did you mean torus?
2 | solve ring:4 allgather --algorithm forestcol | did you mean forestcoll? 'treadle algorithms' lists them
2 | solve ring:4 allgather --algorithm magic | unknown algorithm 'magic'; 'treadle algorithms' lists them all
2 | compare ring:4 allgather --algorithms ring,bfbb | did you mean bfb?
2 | algorithms forest-call | did you mean forestcoll?
2 | lower ring.plan --to msccl -o x | unknown format 'msccl'; did you mean msccl-xml
2 | solve ring:4 allgather --packer heigth-first | did you mean height-first?
2 | bound ring:4 alltoall --method fleisher | unknown method 'fleisher'; did you mean fleischer?
2 | solve ring:4 broadcast --root nobody | nobody
2 | solve ring:4 broadcast --root 9 | 9
2 | solve ring:4 allgather --ranks gpu99 | no compute node of ring(4) has that name
2 | solve ring:4 allgather --ranks 0-99 | expected a rising range within 0 to 3
2 | solve ring:4 allgather --ranks 3-1 | expected a rising range
2 | solve ring:4 allgather --ranks 0 | needs at least 2 ranks
2 | solve ring:4 allgather --ranks 0,0,1 | chosen twice
2 | repair ring.plan --link a--b | 'a'
2 | repair ring.plan --node nobody | nobody'; its nodes have names such as n0
2 | bound dgx_h100:2 allgather --without box0.nic3 | its NICs are links: 'box0.gpu3--ib0'
2 | bound dgx_h100:2 allgather --without box0.gpx3 | did you mean 'box0.gpu3'
2 | compare ring:4 allgather --algorithms MPI | this is a library, whose algorithms are ring,
2 | solve dgx_a100:2 allreduce --algorithm tto | order without parallel links
2 | lower ring.plan --to msccl-xml -o texts | holds 'other', which is not an MSCCL file
# one kind of file for another
2 | lower ring:4 | this is a topology, not a plan; solve it first: treadle solve ring:4 allreduce -o x.plan
2 | run ring:4 | COLLECTIVE is missing; expected one of allgather,
2 | verify dgx-a100:2 | this is a topology, not a plan
2 | run allreduce | this is a collective, not a plan
2 | run fabric.json | this is a topology (Treadle's JSON), not a plan; solve it first: treadle solve fabric
2 | lower text.xml | this is a runtime file (msccl-xml), not a plan; 'treadle verify' checks it
2 | solve ring.plan allgather | this is a plan, not a topology; verify, run, simulate, lower and repair take
2 | verify ring.plan --topology ring.plan | this is a plan, not a topology
2 | run folder | this is a folder; expected a plan
2 | solve folder allgather | this is a folder; expected a file that describes a fabric
2 | run empty | this file is empty; expected a plan
2 | solve empty allgather | this file is empty; expected a file that describes a fabric
2 | verify nowhere.plan | there is no such file; expected a plan
2 | solve nowhere.json allgather | neither a file nor a catalogue name
2 | run notes.txt | notes.txt
2 | solve notes.txt allgather | is of no known format; name one by --format
2 | solve broken.json allgather | broken.json:1
2 | run cut.plan | cut.plan
2 | calibrate ring.plan | is not valid UTF-8
2 | calibrate nowhere.txt | cannot be read
2 | diagnose nowhere.log | nowhere.log
2 | topology import nowhere.xml | nowhere.xml
2 | solve ring:4 alltoall --demands nowhere.csv | nowhere.csv: cannot be read
2 | solve ring:4 allgather -o nowhere/x.plan | nowhere
2 | solve ring:4 allgather -o folder | folder
2 | routes ring:4 -o routes.txt | expected .json, .csv or .xml
# what does not go together
2 | solve ring:4 allgather --trees 2 --exact | at most one of trees, max_trees and exact
2 | solve ring:4 allgather --algorithm ring --trees 2 | --trees is for --algorithm forestcoll
2 | solve ring:4 allgather --algorithm bfb --packer growth | --packer is for --algorithm forestcoll
2 | solve ring:4 allgather --max-flows 2 | --max-flows is for --algorithm
2 | solve dgx_a100:2 allgather --algorithm bfb | use --algorithm forestcoll
2 | solve ring:4 allgather --algorithm rs-ag | allgather is not supported; it supports allreduce
2 | solve ring:4 alltoall --algorithm ring | for an all-to-all leave out --algorithm
2 | solve ring:4 allgather --root 1 | root
2 | solve ring:4 allgather --weights 1,2 | weights
2 | solve ring:4 allgather --weights 1;2;1;1 | expected integers with commas between
2 | solve ring:4 allreduce --weights 1,1,1,2 | no shards to weight
2 | lower ring.plan --to cpu-xml --profile azure -o x | --profile is for
2 | simulate ring.plan --algorithm ring | expected a fabric to solve for, and ring.plan is a plan
2 | design --nodes 8 --degree 2 --collective alltoall | expected one of allreduce
2 | calibrate ring.plan --fabric ring:4 | --fabric and --fabric-output go together
2 | verify ring.plan --max-memory 0B | --max-memory 0B: expected at least 1 byte
2 | verify ring.plan --root 0 | ring.plan: --profile and --root are for runtime files; a plan has both
2 | verify folder --root 0 | folder: --profile and --root are for runtime files; this is a folder of plans
2 | verify folder --profile azure | --profile and --root are for runtime files
2 | report ring.plan -o x.html --gpu a100 | --gpu: valid only for plans that parallelize wrote (JSON)
2 | report ring.plan -o x.html --tokens 1M | --tokens: valid only for plans that parallelize wrote
2 | diagnose notes.txt --without a | --without is about the fabric of --topology; a log's own tree lacks
2 | simulate text.xml --topology ring:4 --referee simgrid | --referee: only for plans, and text.xml is a
2 | simulate text.xml | text.xml: a third-party schedule does not name its fabric; give --topology TOPOLOGY
2 | simulate ring.plan --referee simgrid --cost-model reference | --referee: supports one alpha for all
2 | simulate ring.plan --alpha 1us --cost-model reference | --cost-model and --alpha: a cost model has
2 | draw ring:4 | -o FILE is missing: expected a name that ends in .html, or for a drawing in
2 | compare ring:4 allgather --cost-model reference | --cost-model: valid only for times at sizes; give --size
2 | compare ring:4 allgather --picture x.png | --picture: plots times by size; add --size A..B
2 | solve ring:4 allgather --cost-model reference | valid only for plans by size; give --size too
2 | retune ring.plan | --cost-model is missing: the costs of messages now, as a file or a name
2 | routes ring.plan --layers 2 | ring.plan: a plan has its routes; leave out the options that choose them
2 | routes ring.plan --forward | ring.plan: a plan has its routes; leave out the options that choose them
# what cannot be
3 | solve apart.json allreduce | 'a'
2 | solve ring:1 allgather | at least
2 | solve ring(-4) allgather | ring
2 | solve ring(1000000000) allgather | ring
2 | solve dgx_a100:two allgather | dgx_a100
2 | solve torus: allgather | torus
2 | solve torus:4x allgather | '4x' lacks a number beside its x; expected one on both sides, as in 4x4
2 | solve mi300x allgather | mi300x lacks boxes, as in mi300x:2
2 | verify nofile.xml | there is no such file; expected a plan written by solve (-o), or a runtime file
2 | solve dgx_a100 allgather | dgx_a100
2 | design --nodes 1 --degree 2 | nodes must be at least 2, found 1
2 | design --nodes 8 --degree 0 | degree must be at least 1, found 0
""".strip().splitlines()
CASES = [line for line in MISTAKES if line and not line.startswith("#")]
PARSERS_WORDS = (
    "Missing argument",
    "No such option",
    "No such command",
    "Invalid value",
    "Got unexpected",
    "Usage:",
    "Traceback",
    "Error:",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mistakes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert main(["solve", "ring:4", "allgather", "-q", "-o", "ring.plan"]) == 0
        assert main(["solve", "ring:4", "allreduce", "-q", "-o", "two.plan"]) == 0
        assert main(["lower", "ring.plan", "-q", "-o", "text.xml"]) == 0
        assert main(["topology", "export", "ring:4", "-o", "fabric.json"]) == 0
    (path / "cut.plan").write_bytes((path / "ring.plan").read_bytes()[:-40])
    (path / "empty").write_text("")
    (path / "box.xml").write_text(nccl_xml())
    (path / "notes.txt").write_text("remember the milk\n")
    (path / "broken.json").write_text('{"treadle": "topology", "version": 1,}')
    (path / "folder").mkdir()
    (path / "texts").mkdir()
    (path / "texts" / "other").write_text("remember the milk\n")
    nodes = [{"name": name, "kind": "compute"} for name in "ab"]
    apart = {"treadle": "topology", "version": 1, "name": "apart", "nodes": nodes, "links": []}
    (path / "apart.json").write_text(json.dumps(apart))
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", CASES)
def test_one_line_that_helps(
    case: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, command, *said = case.split(" | ")
    monkeypatch.chdir(folder)
    before = files(folder)
    # words as a shell that does not mind brackets would hand them over
    argv = shlex.split(command)
    assert main(argv) == int(status)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("treadle: ")
    assert err.count("\n") == 1
    assert len(err) < 500
    for words in said:
        assert words in err
    assert not [words for words in PARSERS_WORDS if words in err], err
    assert files(folder) == before


WHOLE = """
solve ring:4 x -12 | solve has no option -1; a negative number means nothing here, and a name that begins \
with - stands after --
solve -z | solve has no option -z; 'treadle solve --help' lists them
-q | treadle has no option -q; 'treadle --help' lists them
--versio | treadle has no option --versio; did you mean --version? 'treadle --help' lists them
topology sho | no command 'sho' of topology; did you mean show? 'treadle topology --help' lists them
topology frob | no command 'frob' of topology; 'treadle topology --help' lists them
list | no command 'list'; did you mean topology list or cabling list? 'treadle --help' lists them
topology -- | a command is missing; 'treadle topology --help' lists them
-- | a command is missing; 'treadle --help' lists them
slove | no command 'slove'; did you mean solve? 'treadle --help' lists them
allreduce | 'allreduce' is a collective; a command comes first, as in: treadle solve dgx_a100:2 allreduce
'torus(4, 4)' | 'torus(4, 4)' is a fabric; a command comes first, as in: treadle solve 'torus(4, 4)' allreduce
simulate ring:4 | COLLECTIVE is missing; expected one of allgather, reduce-scatter, allreduce, broadcast, \
reduce, alltoall, as in: treadle simulate ring:4 allreduce
bound | TOPOLOGY is missing; expected a catalogue expression, e.g. dgx_a100:2, or a file, as in: \
treadle bound dgx_a100:2 allreduce
run | PLAN|TOPOLOGY is missing; expected a plan that solve wrote, or a fabric to solve for, as in: treadle \
run two.plan
diagnose | LOG is missing; expected output of nccl-tests, best with NCCL_DEBUG=INFO, as in: treadle \
diagnose LOG
design | --nodes N is missing: how many (with --degree); or --topology, a fabric by name
run p --iterations | --iterations needs a value: maximum number of timed runs per size
run p --iterations 0 | --iterations '0': expected at least 1
run p --redop mx | --redop 'mx'; did you mean max? Expected one of sum, max, min, avg
config frob | config takes no arguments; left over: frob
diagnose a b | diagnose takes LOG; left over: b
topology show torus:2 4 5 | topology show takes TOPOLOGY; left over: 4 5; did you mean torus:2,4,5?
topology show torus:2 4 x | topology show takes TOPOLOGY; left over: 4 x
bound torus:2 4 4 | bound takes TOPOLOGY COLLECTIVE; left over: 4; did you mean torus:2,4,4?
bound torus 4 a | bound takes TOPOLOGY COLLECTIVE; left over: a
bound torus a 4 | bound takes TOPOLOGY COLLECTIVE; left over: 4; did you mean torus:4?
bound ring:4 allgather a (b | bound takes TOPOLOGY COLLECTIVE; left over: a (b; quote an expression with \
blanks or brackets: 'torus(4, 4)'
bound torus( 4) x | bound takes TOPOLOGY COLLECTIVE; left over: x; quote an expression with blanks or \
brackets: 'torus(4, 4)'
""".strip().splitlines()


@pytest.mark.parametrize("case", WHOLE)
def test_the_whole_line(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, line = case.split(" | ")
    assert main(shlex.split(command)) == 2
    assert capsys.readouterr() == ("", f"treadle: {line}\n")
