"""Folders of texts that a runtime chooses from by size: written whole, and joined by sets of other plans.

A job has several collectives, and a runtime reads one folder: so a second plan's set joins the first, if no
call would be served by both. The manifest ``set.json`` says what every text is for; what makes the runtime
choose is written anew from all of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from treadle.brief import brief
from treadle.errors import FormatError
from treadle.formats.format import find_format
from treadle.formats.selection.file_set import Delivery, FileSet
from treadle.formats.verdict import RangedFile
from treadle.input_files import read_bytes
from treadle.lowering.lower_set import LoweredSet
from treadle.schedules.collective import CollectiveKind

MANIFEST = "set.json"
"""In a set's folder: what every text is for."""
_VERSION = 1
_MOST_BYTES = 2**24
"""Of a manifest."""


@brief("folder", "texts")
@dataclass(frozen=True)
class SavedSet:
    """What lies in a folder.

    Parameters
    ----------
    folder : Path
    texts : tuple of RangedFile
        Of all sets, in the order of their files.
    delivery : Delivery
        Of all of them.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> saved = planning.save_set("texts", planning.lower_set(treadle.solve("ring:4", "allgather")))
    >>> [text.file for text in saved.texts], sorted(path.name for path in saved.folder.iterdir())
    (['texts/plan.01.0B-.xml'], ['load.sh', 'set.json', 'texts'])
    """

    folder: Path
    texts: tuple[RangedFile, ...]
    delivery: Delivery


def is_set_folder(folder: str | Path) -> bool:
    """Whether a set was written there.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.is_set_folder("no-such-folder")
    False
    """
    return (Path(folder) / MANIFEST).is_file()


def save_set(folder: str | Path, lowered: LoweredSet) -> SavedSet:
    """Write a set to a folder, beside those of other plans that it holds.

    Parameters
    ----------
    folder : str or Path
        None is there, an empty one, or one of sets: a set of the same plan and mode is replaced.
    lowered : LoweredSet

    Returns
    -------
    SavedSet

    Raises
    ------
    FormatError
        If the folder holds something else, texts of another format or dialect, or a text for the same calls;
        if the runtime could not tell all texts apart, or reads fewer; if it cannot be written. It is then as
        it was.

    Notes
    -----
    All is written beside the folder and then renamed: a reader sees the old folder or the new one, or for the
    moment between two renames none.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> saved = planning.save_set("texts", planning.lower_set(treadle.solve("ring:4", "allgather")))
    >>> sorted(path.name for path in saved.folder.iterdir())
    ['load.sh', 'set.json', 'texts']
    """
    target = Path(folder).absolute()
    kept, titles = _kept(target, lowered)
    texts = tuple(sorted((*kept, *lowered.files_by_range), key=lambda text: text.file.encode()))
    _check_apart(texts, target)
    record = find_format(lowered.format)
    delivery = record.delivery(FileSet(str(folder).rstrip("/") or "/", lowered.dialect, texts))
    for fault in record.interpreted_set(texts, dict(delivery.files), lowered.dialect or None)[:1]:
        raise FormatError(f"the set's texts would be mistaken: {fault}", source=str(folder))
    titles |= {one.text.file: (one.algorithm, one.protocol) for one in lowered.ranges}
    manifest = _manifest(lowered, texts, titles, delivery)
    files = {text.file: text.data for text in texts} | dict(delivery.files)
    _replace_folder(target, files | {MANIFEST: (json.dumps(manifest, indent=2) + "\n").encode()})
    return SavedSet(Path(folder), texts, delivery)


def _kept(target: Path, lowered: LoweredSet) -> tuple[list[RangedFile], dict[str, tuple[str, str]]]:
    """Texts of other plans that are there, with their algorithms and protocols."""
    if not target.is_dir():
        if target.exists():
            raise FormatError("is a file; name a folder for a set", source=str(target))
        return [], {}
    if not is_set_folder(target):
        for entry in sorted(target.iterdir()):
            raise FormatError(
                f"holds {entry.name!r} and no set; name a folder of its own (-o texts/)", source=str(target)
            )
        return [], {}
    told = _read_manifest(target / MANIFEST)
    found = [_text_of(row, target) for row in told["texts"]]
    own = {(text.plan, text.in_place) for text in lowered.files_by_range}
    kept = [text for text in found if (text.plan, text.in_place) not in own]
    if kept and (told["format"], told["profile"]) != (lowered.format, lowered.dialect or None):
        raise FormatError(
            f"holds texts of {told['format']} {told['profile'] or ''}".rstrip()
            + f", found {lowered.format} {lowered.dialect}".rstrip()
            + "; a runtime reads one kind: name another folder",
            source=str(target),
        )
    titles = {row["file"]: (str(row["algorithm"]), str(row["protocol"] or "")) for row in told["texts"]}
    return kept, {text.file: titles[text.file] for text in kept}


def _read_manifest(path: Path) -> dict[str, Any]:
    """A manifest whose parts are there."""
    with _reading(path):
        told = json.loads(read_bytes(path, _MOST_BYTES))
        heading = (told["treadle"], told["version"])
        if heading != ("set", _VERSION) or not isinstance(told["texts"], list):
            raise FormatError(f"expected a set of version {_VERSION}, found {heading}", source=str(path))
        _ = told["format"], told["profile"]
        return dict(told)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Make one kind of error of all that a manifest may lack."""
    try:
        yield
    except FormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"cannot be read as a set: {error}", source=str(path)) from None


def _text_of(row: Mapping[str, Any], folder: Path) -> RangedFile:
    """A text that the manifest names, as it lies there."""
    with _reading(folder / MANIFEST):
        file = str(row["file"])
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise FormatError(f"{file!r} is outside the folder", source=str(folder / MANIFEST))
        data = (folder / file).read_bytes()
        if hashlib.sha256(data).hexdigest() != row["sha256"]:
            raise FormatError(
                "was changed since the set was written; lower its plan again", source=str(folder / file)
            )
        return RangedFile(
            file=file,
            data=data,
            plan=str(row["plan"]),
            name=str(row["name"]),
            collective=CollectiveKind(row["collective"]),
            n_ranks=int(row["ranks"]),
            n_chunks=int(row["chunks"]),
            in_place=bool(row["in_place"]),
            min_bytes=int(row["min_bytes"]),
            max_bytes=None if row["max_bytes"] is None else int(row["max_bytes"]),
            root=int(row["root"]),
            fills_in=bool(row["fills_in"]),
        )


def _check_apart(texts: Sequence[RangedFile], target: Path) -> None:
    """Refuse sets of two plans that would serve the same calls: the first of them would, unasked."""
    for one, other in combinations(texts, 2):
        calls, others = ((text.collective, text.n_ranks, text.in_place) for text in (one, other))
        if one.plan != other.plan and calls == others and _meet(one, other):
            raise FormatError(
                f"{one.file} and {other.file} would serve the same calls; narrow one (--min-size, "
                "--max-size) or name another folder",
                source=str(target),
            )


def _meet(one: RangedFile, other: RangedFile) -> bool:
    return all(a.max_bytes is None or b.min_bytes <= a.max_bytes for a, b in ((one, other), (other, one)))


def _manifest(
    lowered: LoweredSet,
    texts: Sequence[RangedFile],
    titles: Mapping[str, tuple[str, str]],
    delivery: Delivery,
) -> dict[str, object]:
    return {
        "treadle": "set",
        "version": _VERSION,
        "format": lowered.format,
        "profile": lowered.dialect or None,
        "runtime": delivery.loading.runtime,
        "left_aside": delivery.loading.fallback,
        "texts": [
            {
                "file": text.file,
                "plan": text.plan,
                "name": text.name,
                "algorithm": titles[text.file][0],
                "protocol": titles[text.file][1] or None,
                "collective": text.collective.value,
                "ranks": text.n_ranks,
                "chunks": text.n_chunks,
                "in_place": text.in_place,
                "min_bytes": text.min_bytes,
                "max_bytes": text.max_bytes,
                "root": text.root,
                "fills_in": text.fills_in,
                "sha256": hashlib.sha256(text.data).hexdigest(),
            }
            for text in texts
        ],
    }


def _replace_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Put a folder with these files where another or none was; FormatError changes nothing."""
    mark = secrets.token_hex(8)
    fresh, old = (target.with_name(f".{target.name[:200]}.{mark}.{what}") for what in ("partial", "old"))
    try:
        with _removed(fresh):
            for name, data in files.items():
                path = fresh / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            if not target.exists():
                os.rename(fresh, target)
                return
            os.rename(target, old)
            try:
                os.rename(fresh, target)
            except BaseException:
                os.rename(old, target)
                raise
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise FormatError(f"cannot be written: {error.strerror}", source=str(target)) from None


@contextlib.contextmanager
def _removed(folder: Path) -> Iterator[None]:
    """Nothing is left of a folder that was not renamed."""
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
