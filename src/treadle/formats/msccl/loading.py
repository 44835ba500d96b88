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

from pathlib import PurePath
from shlex import quote

from treadle.formats.judgement import Judgement
from treadle.formats.loading import Loading
from treadle.formats.msccl.profile import Profile
from treadle.formats.request import TextRequest, Written
from treadle.formats.selection.chunk_counts import facts_of
from treadle.formats.selection.served import served
from treadle.formats.selection.text_set import FOLDER, Delivery, TextSet, loader_script

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


def load(request: TextRequest, written: Written, _judgement: Judgement) -> Loading:
    """Return how a runtime file is loaded: by its name, or from a folder of such files."""
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
    rule = ", ".join([served(facts, written.selectors[0]).rule, *limits])
    return Loading(
        runtime=RUNTIMES[profile],
        environment=tuple(variables),
        check=check,
        fallback=f"all but {rule}; averages{_MORE[profile]}",
        prepare=prepare,
    )


def deliver(texts: TextSet) -> Delivery:
    """Return the script that sets the variables for loading a folder of runtime files."""
    profile, folder = Profile(texts.dialect), f"$here/{FOLDER}"
    if profile is Profile.LEGACY:
        files = ":".join(f"$here/{text.file}" for text in texts.texts)
        variables = [("MSCCL_XML_FILES", files), ("NCCL_ALGO", "MSCCL,RING,TREE")]
        check = f"every rank logs 'Connected {len(texts.texts)} MSCCL algorithms' (NCCL_DEBUG=INFO)"
    elif profile is Profile.RCCL:
        variables = [("RCCL_MSCCL_FORCE_ENABLE", "1"), ("MSCCL_ALGO_DIR", folder)]
        check = f"every rank logs 'Using MSCCL files from {texts.folder}/{FOLDER}' (NCCL_DEBUG=INFO)"
    else:
        variables = [("NCCL_MSCCL_ENABLE", "1"), ("MSCCL_ALGO_DIR", folder)]
        check = f"every rank logs 'Using MSCCL Algo files from {texts.folder}/{FOLDER}' (NCCL_DEBUG=INFO)"
    if profile is not Profile.LEGACY:
        variables.append(("MSCCL_SCHEDULER", "none"))
    in_place = {text.in_place for text in texts.texts}
    calls = "" if len(in_place) > 1 else f", calls {'out of' if True in in_place else 'in'} place"
    return Delivery(
        (("load.sh", loader_script(f"Texts for {RUNTIMES[profile]}, chosen by size.", variables)),),
        Loading(
            runtime=RUNTIMES[profile],
            environment=tuple((name, value.replace("$here", texts.folder)) for name, value in variables),
            check=check,
            fallback=f"sizes outside the ranges, and counts that no text's chunks divide{calls}; averages",
        ),
    )
