"""Files of every kind with something changed at random: what each command says of them, word by word.

A file is read as another value, or refused in one line: tests/golden/changed_files.json has which.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import re
import shlex
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.changes import compare
from samples.box_files import amd_smi_tables, hwloc_xml, nccl_xml, nvidia_smi_matrix, rocm_smi_tables
from samples.logs.nccl_logs import curve, info, ranks, system_tree, table
from samples.readers.reader_texts import TEXTS
from treadle.cli.main import main
from treadle.schedules.collective import CollectiveKind

N_CHANGES = 100
MEASURED = re.compile(r'"seconds": (\{[^{}]*\}|[0-9.e-]+)|\d+\.\d{9,}(e-?\d+)?')  # and digits of a machine
PIECES = ["", " ", "\n", "0", "9", "-1", "1e9", "nan", *'"[]{}<>:,=#\0é']

_SLURM = "--nic-bandwidth 50GB/s --oversubscription 1:1"
_OPTIONS = {
    "taccl": "--chunk-size 1MB",
    "slurm": _SLURM,
    "slurm-yaml": _SLURM,
    "csv-matrix": "--bandwidth 1GB/s",
}
_EIGHT = [[18 * (i != j) for j in range(8)] for i in range(8)]
_BOXES = "--boxes 2 --nic-bandwidth 25GB/s --network"
FABRICS = {
    **{name: (text, _OPTIONS.get(name, "")) for name, (text, _) in TEXTS.items()},
    "nccl-xml": (nccl_xml(far_nics=1), f"{_BOXES} rail"),
    "nvidia-smi": (nvidia_smi_matrix(_EIGHT, [[i] for i in range(8)]), f"--gpu h100 {_BOXES} one-switch"),
    "rocm-smi": (rocm_smi_tables([[15 * (i != j) for j in range(8)] for i in range(8)]), "--gpu mi300x"),
    "amd-smi": (amd_smi_tables([[15 * (i != j) for j in range(8)] for i in range(8)]), "--gpu mi300x"),
    "hwloc-xml": (hwloc_xml(), "--pcie full"),
}
MADE = {
    "topology": (["topology export dgx_a100:1 -o FILE"], "topology show FILE"),
    "msccl-xml": (
        ["solve ring:4 allreduce -o p", "lower p --to msccl-xml -o FILE"],
        "verify FILE --topology ring:4",
    ),
    "forestcoll-xml": (
        ["solve dgx_a100:1 allgather -o p", "lower p --to forestcoll-xml -o FILE"],
        "verify FILE --topology dgx_a100:1",
    ),
    "mscclpp-json": (
        ["solve complete:3 allgather -o p", "lower p --to mscclpp-json -o FILE"],
        "verify FILE --topology complete:3",
    ),
    "routes-json": (["routes ring:5 --layers 2 -o FILE.json"], "verify FILE.json"),
    "installed": (
        ["cabling list torus:2,3 -o FILE", "cabling list torus:2,3 -o b.csv"],
        "cabling check b.csv FILE",
    ),
    "parallel plan": (
        ["parallelize gpt2 --fabric ring:2 --gpu a100 --mesh 2 --tokens 4K --gap 0.5 -o FILE"],
        "execute FILE none.py:make",
    ),
}
PLANS = {
    "forest": 'solve "complete_bipartite(2,2)" allreduce',
    "forest of switches": 'solve "dgx_h100(2, nvls=True, gpus_per_box=2)" reduce-scatter --multicast',
    "groups": "solve dgx_a100:2 allgather --mesh 4,4 --axes 0",
    "pods": 'solve "pods(64, 2)" allgather',
    "boxes": 'solve "dgx_a100(4)" allreduce --form factored',
    "steps": "solve torus:3,3 allreduce --algorithm bfb",
    "sizes": "solve ring:4 allgather --size 1K,16M",
    "exchange": "solve dgx_h100:2 alltoall --algorithm factor-exchange",
    "exchange of groups": 'solve "torus(2, 4)" alltoall --mesh 2,4 --axes 0',
    "routes": 'solve "leaf_spine(3, 2)" alltoall',
}
WRITTEN = {
    "jobs": (
        '[[job]]\nname = "first"\nkind = "allgather"\nranks = "0-4"\n'
        '[[job]]\nname = "second"\nkind = "allreduce"\nranks = "5-9"\n',
        'bound "leaf_spine(3, 2, gpus_per_leaf=4)" --jobs FILE',
    ),
    "demands": (
        "0,3,1,0,2\n1,0,7,2,0\n4,1,0,5,1\n0,2,3,0,9\n6,0,1,1,0\n",
        'bound "complete(5)" alltoall --demands FILE',
    ),
    "workload": (
        '[network]\nalpha = "2us"\nbandwidth = "77Gbit/s"\n'
        '[[collectives]]\nkind = "allreduce"\nsize = "3MB"\ncount = 5\n'
        '[[collectives]]\nkind = "alltoall"\nsize = "700KB"\ngroup_size = 4\n',
        'design --topology "torus(3,4)" --workload FILE --alltoall bound',
    ),
    "model": (
        '{"model_type": "llama", "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3,\n'
        '"num_attention_heads": 6, "num_key_value_heads": 3, "vocab_size": 301,\n'
        '"max_position_embeddings": 128}\n',
        "train FILE --fabric ring:2 --mesh dp=2 --gpu h100 --schedule bound",
    ),
    "nccl log": (
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
        "     1048576        262144     float     sum      -1    50.00   20.97   36.70      0\n"
        "    67108864      16777216     float     sum      -1   900.00   74.57  130.49      0\n"
        "  1073741824     268435456     float     sum      -1 12900.00   83.24  145.66      0\n",
        "diagnose FILE --topology dgx_a100:1 --collective allreduce",
    ),
    "hybrid model": (
        '{"model_type": "nemotron_h", "hidden_size": 96, "hybrid_override_pattern": "M-*E",\n'
        '"num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 16,\n'
        '"intermediate_size": 160, "vocab_size": 301, "max_position_embeddings": 128,\n'
        '"mamba_num_heads": 8, "mamba_head_dim": 24, "ssm_state_size": 32, "n_groups": 2,\n'
        '"conv_kernel": 4, "chunk_size": 64, "n_routed_experts": 4, "num_experts_per_tok": 2,\n'
        '"moe_intermediate_size": 40, "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 56}\n',
        "train FILE --fabric \"ring(2, bandwidth='25GB/s')\" --mesh dp=2 --gpu h100 --schedule bound",
    ),
    "layer times": (
        "layer,forward_s,backward_s,tokens\nembedding*,1e-4,3e-4,\nblock *,1e-3,2e-3,4096\n*,1e-4,1e-4,7\n",
        "train gpt2 --fabric ring:2 --mesh dp=2 --gpu h100 --schedule bound --layer-times FILE",
    ),
    "floor": (
        "[rack]\nunits = 13\nnode_units = 3\n[floor]\nracks_per_row = 2\n"
        'rack_pitch = "80cm"\nrow_pitch = "3m"\nslack = "2m"\n',
        'cabling list "leaf_spine(3, 2, gpus_per_leaf=3)" --floor FILE --rack-size 4',
    ),
    "cost model": (
        '{"treadle": "cost-model", "version": 1, "name": "own", "source": "a guess", "protocols": [\n'
        '{"name": "ll", "launch_ns": 6600, "channels": 3, "channel_bytes_per_s": 7000000000,\n'
        '"box": {"alpha_ns": 600, "occupancy_ns": 9, "hop_ns": 5, "efficiency": "2/5"},\n'
        '"hop": {"alpha_ns": 2700, "occupancy_ns": 1000, "hop_ns": 0, "efficiency": "9/20"},\n'
        '"network": {"alpha_ns": 2700, "occupancy_ns": 1000, "hop_ns": 0, "efficiency": "9/20"}}]}\n',
        "bound dgx_a100:2 allreduce --size 1K,1M --cost-model FILE",
    ),
    "log of a job": (
        "\n".join(
            [
                *ranks(2, 8),
                info("NCCL version 2.27.3+cuda12.4"),
                *system_tree(nics=4),
                *(info(f"Channel {k:02}/02 :    0  1  2  3  4  5  6  7") for k in range(2)),
                info("Connected NVLS tree"),
                info("NCCL_ALGO set by environment to Ring"),
                *table(CollectiveKind.ALLREDUCE, 16, curve(90)[6:]),
                *table(CollectiveKind.ALLGATHER, 16, curve(88)[9:], wrong=2, named=False),
            ]
        ),
        "diagnose FILE",
    ),
    "table of a job": (
        "\n".join([*ranks(1, 4), *table(CollectiveKind.ALLREDUCE, 4, curve(90)[8:])]),
        "calibrate FILE -o model.json",
    ),
    "measured rows": (
        '{"collective": "allreduce", "ranks": 2, "rows": [{"size_bytes": 1024, "time_s": 1.1e-5},\n'
        '{"size_bytes": 1048576, "time_s": 0.00012, "steps": 2},\n'
        '{"size_bytes": 67108864, "time_s": 0.0061}]}\n',
        "calibrate FILE -o model.json",
    ),
    "nccl json": (
        '{"args": ["./all_gather_perf"], "devices": [{}, {}, {}, {}], "results": [\n'
        '{"size": 4096, "out_of_place": {"time": 20.5, "alg_bw": 0.2, "bus_bw": 0.15}},\n'
        '{"size": 33554432, "in_place": {"time": 400.25, "alg_bw": 83.8, "bus_bw": 62.9}}]}\n',
        "calibrate FILE -o model.json",
    ),
}


def case_of(kind: str) -> tuple[bytes, str]:
    """The unchanged file of a kind, and the command that reads it; in the current folder."""
    if kind in FABRICS:
        text, options = FABRICS[kind]
        return text.encode(), f"topology import FILE {options}"
    if kind in WRITTEN:
        return WRITTEN[kind][0].encode(), WRITTEN[kind][1]
    made, command = MADE.get(kind) or ([f"{PLANS[kind]} -o FILE"], "verify FILE")
    for line in made:
        assert run(line)[0] == 0, line
    return Path(file_of(command)).read_bytes(), command


def file_of(command: str) -> str:
    return next(word for word in command.split() if word.startswith("FILE"))


def run(command: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(shlex.split(command))
    return status, out.getvalue(), err.getvalue()


def changed(data: bytes, draw: random.Random) -> bytes:
    """A text with a piece put in, exchanged or cut out, a line repeated or left out, or another digit."""
    text = data.decode()
    if text[0] == "{" and draw.randrange(2):
        return changed_json(text, draw)
    lines = text.splitlines(keepends=True)
    at, k = draw.randrange(len(text)), draw.randrange(len(lines))
    match draw.randrange(6):
        case 0:
            text = text[:at] + draw.choice(PIECES) + text[at:]
        case 1:
            text = text[:at] + draw.choice(PIECES) + text[at + draw.randrange(1, 4) :]
        case 2:
            text = text[:at] + text[at + draw.randrange(1, 40) :]
        case 3:
            text = "".join(lines[:k] + lines[k : k + 1] * 2 + lines[k + 1 :])
        case 4:
            text = "".join(lines[:k] + lines[k + 1 :])
        case _:
            digits = [place for place, letter in enumerate(text) if letter.isdigit()] or [at]
            at = draw.choice(digits)
            text = text[:at] + str(draw.randrange(10)) + text[at + 1 :]
    return text.encode()


def changed_json(text: str, draw: random.Random) -> bytes:
    """Return a JSON text with a value dropped or replaced."""
    value = json.loads(text)
    places, whole = list[tuple[Any, Any]](), [value]
    for part in whole:
        keys = list(part) if isinstance(part, dict) else range(len(part) if isinstance(part, list) else 0)
        places += [(part, key) for key in keys]
        whole += [part[key] for key in keys]
    part, key = draw.choice(places)
    match draw.randrange(4):
        case 0:
            del part[key]
        case 1:
            part[key] = draw.choice([None, True, -1, 0, 2, 1.5, 10**9, "", "x\n", [], {}, [part[key]]])
        case 2:
            holder, other = draw.choice(places)
            part[key] = deepcopy(holder[other])
        case _ if isinstance(part[key], int | float):
            part[key] += draw.choice([-1, 1])
        case _:
            part[key] = str(part[key])[1:]
    return json.dumps(value, default=str).encode()


def changed_plan(data: bytes, draw: random.Random) -> bytes:
    """Return a plan file with a text or a number of an array changed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    arrays = [name for name in members if name.endswith(".npy") and np.load(io.BytesIO(members[name])).size]
    if draw.randrange(5) == 0:
        name = draw.choice(["manifest.json", "topology.json", *arrays])
        members[name] = members[name][:-4] if name in arrays else changed(members[name], draw)
    else:
        name, stored = draw.choice(arrays), io.BytesIO()
        array = np.load(io.BytesIO(members[name]))
        at, kept = draw.randrange(array.size), [int(value) for value in array.flat]
        value = draw.choice([-1, 0, 1, kept[at] + 1, kept[at] - 1, max(kept) + 1, *kept])
        array.flat[at] = min(value, np.iinfo(array.dtype).max)
        np.save(stored, array)
        members[name] = stored.getvalue()
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return stored.getvalue()


def results_of(kind: str) -> list[str]:
    data, command = case_of(kind)
    change = changed_plan if kind in PLANS else changed
    draw, found = random.Random(kind), list[str]()
    for _ in range(N_CHANGES * (1 + (kind in PLANS))):
        Path(file_of(command)).write_bytes(change(data, draw))
        status, out, err = run(f"{command} --json")
        assert status in range(5), err
        assert status or out, "a result"
        assert "\n" not in err.strip() or not status, "a refusal is one line"
        result = hashlib.sha256(MEASURED.sub("", out).encode()).hexdigest()[:12]
        told = err.strip().removeprefix("treadle: ") if status > 1 else result
        found.append(f"{status} {told}")
    return found


@pytest.mark.parametrize("kind", [*FABRICS, *MADE, *WRITTEN])
def test_changed_files_say_what_they_said(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    compare("changed_files", {kind: results_of(kind)})


@pytest.mark.parametrize("kind", PLANS)
def test_changed_plans_say_what_they_said(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    compare("changed_files", {kind: results_of(kind)})
