"""Exported code on ranks, beside the module on one: gradients, and the collectives that were called.

What the code loads is loaded here, before there are ranks.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import torch
import torch._dynamo
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.tensor.parallel

from parallelism.exporting.small_model import BATCH, make
from treadle.parallelism.execution.counting import counted
from treadle.parallelism.execution.ranks import fork_ranks


def compared(codes_of: dict[str, dict[str, str]]):
    """By backend and code the largest error of loss and gradients, and collectives by kind and ranks."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module, arguments = make()
    loss = module(*arguments)
    loss.backward()
    expected = {name: parameter.grad for name, parameter in module.named_parameters()}
    state = {name: value.detach() for name, value in module.state_dict().items()}
    results = {}
    for backend, codes in codes_of.items():
        work = partial(_rank, codes, state, arguments, loss.detach(), expected)
        found = fork_ranks(4, backend, work, timeout_s=200)
        for name in codes:
            assert all(one[name][1] == found[0][name][1] for one in found)
        results[backend] = {name: (max(one[name][0] for one in found), found[0][name][1]) for name in codes}
    return results


def _rank(codes, state, arguments, loss, expected, rank: int):
    return {name: _one(code, state, arguments, loss, expected) for name, code in codes.items()}


def _one(code: str, state, arguments, loss, expected):
    scope: dict = {}
    exec(compile(code, "layout.py", "exec"), scope)
    mesh = scope["make_mesh"]("cpu")
    module, _ = make()
    module.load_state_dict(state)
    module = scope["parallelize"](module, mesh)
    data = [name for name in mesh.mesh_dim_names if name != "tp"]
    number = 0
    for name in data:
        number = number * mesh[name].size() + mesh[name].get_local_rank()
    count = 1
    for name in data:
        count *= mesh[name].size()
    mine = [one.chunk(count)[number] for one in arguments]
    assert len(mine[0]) == BATCH // count
    with counted() as collectives:
        made = module(*mine)
        made.backward()
    total = made.detach().clone()
    dist.all_reduce(total)
    worst = abs(float(total) / dist.get_world_size() - float(loss)) / abs(float(loss))
    for name, parameter in module.named_parameters():
        gradient = parameter.grad
        gradient = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
        wanted = expected[name.replace("_checkpoint_wrapped_module.", "")]
        worst = max(worst, float((gradient - wanted).abs().max() / wanted.abs().max()))
    kinds: Counter = Counter()
    for one, times in collectives.items():
        if len(one.ranks) > 1:
            kinds[one.kind.value, len(one.ranks)] += times
    return worst, dict(kinds)
