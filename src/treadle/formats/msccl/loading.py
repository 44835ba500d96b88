"""Describes how the MSCCL runtimes load a runtime file, and how they choose among several.

Source: ``mscclInternalSchedulerInit`` and ``mscclInternalSchedulerSelectAlgo`` of
src/misc/msccl/msccl_lifecycle.cc of Azure/msccl-executor-nccl and ROCm/rccl;
``mscclGetAllAlgoFromXMLFilesAndSetInfo`` of src/graph/topo.cc and ``ncclTopoGetMSCCLAlgo`` of
src/graph/tuning.cc of microsoft/msccl.

All use the first file that matches a call. msccl-executor-nccl reads its folder in the order of names, msccl
reads the files in the order of its variable. RCCL, and the library msccl-scheduler, use the order in which
the file system lists the folder: there, no two files may match the same call. The variable
``MSCCL_SCHEDULER`` names no library, so that msccl-executor-nccl does not look for msccl-scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from shlex import quote

from treadle.formats.loading import Loading
from treadle.formats.msccl.profile import Profile
from treadle.formats.request import FileRequest, Written
from treadle.formats.selection.chunk_counts import facts_of
from treadle.formats.selection.file_set import FOLDER, Delivery, FileSet, loader_script
from treadle.formats.selection.supported_sizes import supported_sizes
from treadle.formats.verdict import Verdict

RUNTIMES = {
    Profile.AZURE: "msccl-executor-nccl (in place of NCCL)",
    Profile.LEGACY: "msccl (NCCL with the MSCCL interpreter)",
    Profile.RCCL: "RCCL (before it removed MSCCL in March 2026)",
}
_MORE = {
    Profile.AZURE: ", and processes with several GPUs",
    Profile.LEGACY: ", and calls within a group of several",
    Profile.RCCL: "",
}
"""Other calls that fall back."""


def _variables(profile: Profile, files: Sequence[str], folder: str) -> tuple[list[tuple[str, str]], str]:
    """Return the variables that load files, or a folder, and the evidence in the log."""
    if profile is Profile.LEGACY:
        variables = [("MSCCL_XML_FILES", ":".join(files)), ("NCCL_ALGO", "MSCCL,RING,TREE")]
        return variables, f"every rank logs 'Connected {len(files)} MSCCL algorithms'"
    switch, what = ("NCCL_MSCCL_ENABLE", "MSCCL Algo files")
    if profile is Profile.RCCL:
        switch, what = ("RCCL_MSCCL_FORCE_ENABLE", "MSCCL files")
    return [(switch, "1"), ("MSCCL_ALGO_DIR", folder)], f"every rank logs 'Using {what} from {folder}'"


def load(request: FileRequest, written: Written, _verdict: Verdict) -> Loading:
    """Return how a runtime file is loaded: by its name, or from a folder of such files."""
    assert written.program is not None
    path, profile, prepare = request.path, Profile(written.dialect), tuple[str, ...]()
    facts = facts_of(written.program, request.entry.min_bytes, request.max_bytes)
    folder = str(PurePath(path).parent)
    if not request.in_own_folder and profile is not Profile.LEGACY:
        folder = str(PurePath(path).with_suffix(".msccl"))
        prepare = (f"mkdir -p {quote(folder)}", f"cp {quote(path)} {quote(folder)}/")
    variables, check = _variables(profile, [path], folder)
    variables.append(("NCCL_DEBUG", "INFO"))
    if profile is Profile.LEGACY:
        variables.append(("NCCL_DEBUG_SUBSYS", "INIT,ENV"))
    else:
        check += "; it stops at a file that is not MSCCL XML"
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


def deliver(texts: FileSet) -> Delivery:
    """Return the script that sets the variables for loading a folder of runtime files."""
    profile, files = Profile(texts.dialect), [f"$here/{text.file}" for text in texts.texts]
    variables, check = _variables(profile, files, f"$here/{FOLDER}")
    if profile is not Profile.LEGACY:
        variables.append(("MSCCL_SCHEDULER", "none"))
    in_place = {text.in_place for text in texts.texts}
    calls = "" if len(in_place) > 1 else f", calls {'out of' if True in in_place else 'in'} place"
    return Delivery(
        (("load.sh", loader_script(f"Texts for {RUNTIMES[profile]}, chosen by size.", variables)),),
        Loading(
            runtime=RUNTIMES[profile],
            environment=tuple((name, value.replace("$here", texts.folder)) for name, value in variables),
            check=f"{check} (NCCL_DEBUG=INFO)".replace("$here", texts.folder),
            fallback=f"sizes outside the ranges, and counts that no file's chunks divide{calls}; averages",
        ),
    )
