"""How MSCCL++ loads a plan."""

from __future__ import annotations

from treadle.formats.loading import Loading
from treadle.formats.mscclpp.recipe import CALLED, direct_recipe, recipe
from treadle.formats.request import FileRequest, Written
from treadle.formats.selection.chunk_counts import facts_of
from treadle.formats.selection.supported_sizes import Selector, supported_sizes
from treadle.formats.verdict import Verdict


def load(request: FileRequest, written: Written, _judgement: Verdict) -> Loading:
    """How MSCCL++ loads a plan that was written."""
    program, path, name = written.program, request.path, written.name
    assert program is not None
    facts = facts_of(program, request.entry.min_bytes, request.max_bytes)
    if facts.kind not in CALLED:
        return Loading(
            runtime=f"MSCCL++ (its executor: the NCCL interface hands no {facts.kind} to plans)",
            environment=(("MSCCLPP_LOG_LEVEL", "INFO"),),
            check=f"the log says 'Starting execution with plan: {name}'",
            fallback=f"nothing: all but {supported_sizes(facts, Selector.MSCCLPP).rule} is an error",
            code=direct_recipe(path),
        )
    return Loading(
        runtime="MSCCL++ (as NCCL; in every process, before init_process_group('nccl'))",
        environment=(
            ("LD_PRELOAD", "libmscclpp_nccl.so"),
            ("MSCCLPP_NCCL_LIB_PATH", "libnccl.so.2"),
            ("MSCCLPP_LOG_LEVEL", "INFO"),
        ),
        check=f"every call that it serves logs 'Starting execution with plan: {name}'",
        fallback="what `select` leaves aside goes to MSCCL++'s own algorithms in a box, else to NCCL; "
        "without `select` a size that the chunks do not divide into whole 16 bytes throws, not falls back",
        code=recipe(path, name, facts, root=program.root, in_place=program.in_place),
    )
