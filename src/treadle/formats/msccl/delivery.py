"""How the MSCCL runtimes choose from several texts.

Source: ``mscclInternalSchedulerInit`` and ``mscclInternalSchedulerSelectAlgo`` of
src/misc/msccl/msccl_lifecycle.cc of Azure/msccl-executor-nccl and ROCm/rccl;
``mscclGetAllAlgoFromXMLFilesAndSetInfo`` of src/graph/topo.cc and ``ncclTopoGetMSCCLAlgo`` of
src/graph/tuning.cc of microsoft/msccl.

All take the first text that serves a call. msccl-executor-nccl goes through its folder in the order of
names, msccl in the order in which its variable names the files. RCCL, and the library msccl-scheduler, take
the order in which the file system lists the folder: there no two texts may serve the same call. The variable
that names that library names none here, so that msccl-executor-nccl does not look for it.
"""

from __future__ import annotations

from treadle.formats.loading import Loading
from treadle.formats.msccl.profile import Profile
from treadle.formats.selection.file_set import FOLDER, Delivery, FileSet, loader_script

RUNTIMES = {
    Profile.AZURE: "msccl-executor-nccl (in place of NCCL)",
    Profile.LEGACY: "msccl (NCCL with the MSCCL interpreter)",
    Profile.RCCL: "RCCL (before it removed MSCCL in March 2026)",
}


def deliver(texts: FileSet) -> Delivery:
    """The variables that load the texts of a folder, and the script that sets them."""
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
