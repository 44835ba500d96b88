"""How the MSCCL runtimes load a text."""

from __future__ import annotations

from pathlib import PurePath
from shlex import quote

from treadle.formats.judgement import Judgement
from treadle.formats.loading import Loading
from treadle.formats.msccl.profile import Profile
from treadle.formats.request import TextRequest, Written
from treadle.formats.selection.chunk_counts import facts_of
from treadle.formats.selection.served import Selector, TextFacts, served


def load(request: TextRequest, written: Written, _judgement: Judgement) -> Loading:
    """Of a text that was written."""
    assert written.program is not None
    return msccl_loading(
        request.path,
        Profile(written.dialect),
        facts_of(written.program, request.entry.min_bytes, request.max_bytes),
        in_place=written.program.in_place,
        in_own_folder=request.in_own_folder,
    )


def msccl_loading(
    path: str, profile: Profile, facts: TextFacts, *, in_place: bool, in_own_folder: bool
) -> Loading:
    """How the MSCCL runtimes load an XML.

    Parameters
    ----------
    path : str
        Of the file, as it will be found on the cluster.
    profile : Profile
    facts : TextFacts
        Of the text.
    in_place : bool
        Which calls the text serves.
    in_own_folder : bool
        Whether the file's folder holds nothing but such texts: all but the legacy runtime parse every file.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind
    >>> facts = TextFacts(CollectiveKind.ALLREDUCE, 2, 4)
    >>> loading = msccl_loading("two.xml", Profile.AZURE, facts, in_place=False, in_own_folder=False)
    >>> loading.prepare
    ('mkdir -p two.msccl', 'cp two.xml two.msccl/')
    >>> dict(loading.environment)["MSCCL_ALGO_DIR"]
    'two.msccl'
    """
    where = _where(facts, in_place)
    if profile is Profile.LEGACY:
        rule = served(facts, Selector.LEGACY).rule
        return Loading(
            runtime="msccl (NCCL with the MSCCL interpreter)",
            environment=(
                ("MSCCL_XML_FILES", path),
                ("NCCL_ALGO", "MSCCL,RING,TREE"),
                ("NCCL_DEBUG", "INFO"),
                ("NCCL_DEBUG_SUBSYS", "INIT,ENV"),
            ),
            check="every rank logs 'Connected 1 MSCCL algorithms'",
            fallback=f"all but {rule}{where}; averages, and calls within a group of several",
        )
    folder = str(PurePath(path).parent)
    prepare: tuple[str, ...] = ()
    if not in_own_folder:
        folder = str(PurePath(path).with_suffix(".msccl"))
        prepare = (f"mkdir -p {quote(folder)}", f"cp {quote(path)} {quote(folder)}/")
    if profile is Profile.RCCL:
        return Loading(
            runtime="RCCL (before it removed MSCCL in March 2026)",
            environment=(
                ("RCCL_MSCCL_FORCE_ENABLE", "1"),
                ("MSCCL_ALGO_DIR", folder),
                ("NCCL_DEBUG", "INFO"),
            ),
            check=f"every rank logs 'Using MSCCL files from {folder}'; it ends at a file that is none",
            fallback=f"all but {served(facts, Selector.RCCL).rule}{where}; averages",
            prepare=prepare,
        )
    return Loading(
        runtime="msccl-executor-nccl (in place of NCCL)",
        environment=(("NCCL_MSCCL_ENABLE", "1"), ("MSCCL_ALGO_DIR", folder), ("NCCL_DEBUG", "INFO")),
        check=f"every rank logs 'Using MSCCL Algo files from {folder}'; it ends at a file that is none",
        fallback=f"all but {served(facts, Selector.AZURE).rule}{where}; averages, and processes with several "
        "GPUs",
        prepare=prepare,
    )


def _where(facts: TextFacts, in_place: bool) -> str:
    """The calls that a text of MSCCL is for, besides the rule of their counts."""
    limits = [f"of at least {facts.min_bytes} bytes"] if facts.min_bytes else []
    limits += [f"of at most {facts.max_bytes} bytes"] if facts.max_bytes else []
    return ", ".join(["", *limits, "in place" if in_place else "out of place"])
