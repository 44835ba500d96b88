"""Ranks that fork from one process which has loaded PyTorch: loading it for each takes longer than the work.

Run as a program: `forked_ranks.py FOLDER WORKER ARGUMENTS...`, each of ARGUMENTS a list in JSON, for a rank.
Each rank then is a process as if WORKER had been started with its arguments; what it prints and how it ends
lies in FOLDER.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from child_processes import LIMIT_S, finished

LOADED = (
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.nn.parallel",
    "torch._dynamo",
    "torch._inductor.fx_passes",
    "torch.distributed._functional_collectives",
    "treadle.schedulers.forestcoll",
    "treadle.torch.group",
    "treadle.torch.group_engine",
)
"""Before there are ranks, with all that training and collectives load; none of it starts a thread."""


def forked_ranks(
    worker: Path, arguments: Sequence[Sequence[object]], environment: Mapping[str, str]
) -> list[subprocess.CompletedProcess[str]]:
    """What the ranks of a worker, one for each list of arguments, printed, and how they ended."""
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        lists = [json.dumps([str(word) for word in words]) for words in arguments]
        done = finished(
            [sys.executable, __file__, folder, worker, *lists], environment=environment, limit_s=LIMIT_S
        )
        assert done.returncode == 0, done.stderr[-3000:]
        codes = json.loads(done.stdout)
        return [
            subprocess.CompletedProcess(
                list(words),
                code,
                *((Path(folder) / f"{rank}.{kind}").read_text(errors="replace") for kind in ("out", "err")),
            )
            for rank, (words, code) in enumerate(zip(arguments, codes, strict=True))
        ]


def _become_rank(folder: str, rank: int) -> None:
    """Send what this process prints to the rank's files."""
    for number, kind in ((1, "out"), (2, "err")):
        file = os.open(f"{folder}/{rank}.{kind}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)


def _main(folder: str, worker: str, lists: Sequence[str]) -> None:
    for name in LOADED:
        __import__(name)
    gc.freeze()  # what is collected is written to, and so copied, in every rank
    processes = []
    for rank, words in enumerate(lists):
        process = os.fork()
        if process == 0:
            _become_rank(folder, rank)
            sys.argv = [worker, *json.loads(words)]
            runpy.run_path(worker, run_name="__main__")
            return  # and the interpreter ends as it does after any program
        processes.append(process)
    codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    print(json.dumps(codes))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], sys.argv[3:])
