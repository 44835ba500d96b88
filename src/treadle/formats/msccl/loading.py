"""How the MSCCL runtimes load a text."""

from __future__ import annotations

from pathlib import PurePath
from shlex import quote

from treadle.formats.loading import Loading
from treadle.formats.msccl.delivery import RUNTIMES
from treadle.formats.msccl.profile import Profile
from treadle.formats.request import FileRequest, Written
from treadle.formats.selection.chunk_counts import facts_of
from treadle.formats.selection.supported_sizes import supported_sizes
from treadle.formats.verdict import Verdict

_MORE = {
    Profile.AZURE: ", and processes with several GPUs",
    Profile.LEGACY: ", and calls within a group of several",
    Profile.RCCL: "",
}
"""What else falls back."""


def load(request: FileRequest, written: Written, _judgement: Verdict) -> Loading:
    """How a text that was written is loaded, by a folder of such texts where not by its name."""
    assert written.program is not None
    path, profile, prepare = request.path, Profile(written.dialect), tuple[str, ...]()
    facts = facts_of(written.program, request.entry.min_bytes, request.max_bytes)
    folder = str(PurePath(path).parent)
    if not request.in_own_folder and profile is not Profile.LEGACY:
        folder = str(PurePath(path).with_suffix(".msccl"))
        prepare = (f"mkdir -p {quote(folder)}", f"cp {quote(path)} {quote(folder)}/")
    if profile is Profile.LEGACY:
        variables = [("MSCCL_XML_FILES", path), ("NCCL_ALGO", "MSCCL,RING,TREE"), ("NCCL_DEBUG", "INFO")]
        variables.append(("NCCL_DEBUG_SUBSYS", "INIT,ENV"))
        check = "every rank logs 'Connected 1 MSCCL algorithms'"
    else:
        is_rccl = profile is Profile.RCCL
        first = "RCCL_MSCCL_FORCE_ENABLE" if is_rccl else "NCCL_MSCCL_ENABLE"
        variables = [(first, "1"), ("MSCCL_ALGO_DIR", folder), ("NCCL_DEBUG", "INFO")]
        files = "MSCCL files" if is_rccl else "MSCCL Algo files"
        check = f"every rank logs 'Using {files} from {folder}'; it ends at a file that is none"
    ends = (("least", facts.min_bytes), ("most", facts.max_bytes))
    limits = [f"of at {end} {size} bytes" for end, size in ends if size]
    limits.append("in place" if written.program.in_place else "out of place")
    rule = ", ".join([supported_sizes(facts, written.selectors[0]).rule, *limits])
    return Loading(
        runtime=RUNTIMES[profile],
        environment=tuple(variables),
        check=check,
        fallback=f"all but {rule}; averages{_MORE[profile]}",
        prepare=prepare,
    )
