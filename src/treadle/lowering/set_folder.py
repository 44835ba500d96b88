"""Saves sets of runtime files: folders that are written as a whole, and that sets of other plans can join.

A job has several collectives, and a runtime reads one folder: so the set of a second plan joins the first,
unless both would be used for the same calls. The manifest ``set.json`` describes every file; the files that
make the runtime choose are written again for all of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
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
"""File in a set's folder that describes every runtime file."""
_VERSION = 1
_MOST_BYTES = 2**24
"""Maximum size of a manifest."""


@brief("folder", "texts")
@dataclass(frozen=True)
class SavedSet:
    """A folder of runtime files.

    Parameters
    ----------
    folder : Path
    texts : tuple of RangedFile
        Runtime files of all plans, in the order of their names.
    delivery : Delivery
        Files that make the runtime choose from all of them.

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
    """Whether a folder contains a set.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.is_set_folder("no-such-folder")
    False
    """
    return (Path(folder) / MANIFEST).is_file()


def save_set(folder: str | Path, lowered: LoweredSet) -> SavedSet:
    """Write a set to a folder, next to the sets of other plans in it.

    Parameters
    ----------
    folder : str or Path
        A new or empty folder, or one of sets: a set of the same plan and mode is replaced.
    lowered : LoweredSet

    Returns
    -------
    SavedSet

    Raises
    ------
    FormatError
        If the folder contains something else, files of another format or dialect, or a file for the same
        calls; if the runtime could not distinguish all files, or reads fewer; if it cannot be written. It is
        then unchanged.

    Notes
    -----
    Everything is written to a new folder, which is then renamed: a reader sees the old folder or the new one,
    or none between two renames.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> saved = planning.save_set("texts", planning.lower_set(treadle.solve("ring:4", "allgather")))
    >>> sorted(path.name for path in saved.folder.iterdir())
    ['load.sh', 'set.json', 'texts']
    """
    target = Path(folder).absolute()
    kept, titles = _files_of_others(target, lowered)
    texts = tuple(sorted((*kept, *lowered.files_by_range), key=lambda text: text.file.encode()))
    _check_apart(texts, target)
    record = find_format(lowered.format)
    delivery = record.delivery(FileSet(str(folder).rstrip("/") or "/", lowered.dialect, texts))
    for fault in record.interpreted_set(texts, dict(delivery.files), lowered.dialect or None)[:1]:
        raise FormatError(f"the runtime would choose wrong files: {fault}", source=str(folder))
    titles |= {one.text.file: (one.algorithm, one.protocol) for one in lowered.ranges}
    manifest = _manifest(lowered, texts, titles, delivery)
    files = {text.file: text.data for text in texts} | dict(delivery.files)
    _replace_folder(target, files | {MANIFEST: (json.dumps(manifest, indent=2) + "\n").encode()})
    return SavedSet(Path(folder), texts, delivery)


def _files_of_others(
    target: Path, lowered: LoweredSet
) -> tuple[list[RangedFile], dict[str, tuple[str, str]]]:
    """Return the files of other plans in the folder, with their algorithms and protocols."""
    if not target.is_dir():
        if target.exists():
            raise FormatError("is a file; name a folder for a set", source=str(target))
        return [], {}
    if not is_set_folder(target):
        for entry in sorted(target.iterdir()):
            raise FormatError(
                f"contains {entry.name!r} and no set; name a new folder (-o FOLDER/)", source=str(target)
            )
        return [], {}
    manifest = _read_manifest(target / MANIFEST)
    found = [_file_of(row, target) for row in manifest["texts"]]
    own = {(text.plan, text.in_place) for text in lowered.files_by_range}
    kept = [text for text in found if (text.plan, text.in_place) not in own]
    if kept and (manifest["format"], manifest["profile"]) != (lowered.format, lowered.dialect or None):
        raise FormatError(
            f"contains files of {manifest['format']} {manifest['profile'] or ''}".rstrip()
            + f", found {lowered.format} {lowered.dialect}".rstrip()
            + "; a runtime reads one kind: name another folder",
            source=str(target),
        )
    titles = {row["file"]: (str(row["algorithm"]), str(row["protocol"] or "")) for row in manifest["texts"]}
    return kept, {text.file: titles[text.file] for text in kept}


def _read_manifest(path: Path) -> dict[str, Any]:
    """Read a manifest; FormatError if parts are missing."""
    with _reading(path):
        manifest = json.loads(read_bytes(path, _MOST_BYTES))
        heading = (manifest["treadle"], manifest["version"])
        if heading != ("set", _VERSION) or not isinstance(manifest["texts"], list):
            raise FormatError(f"expected a set of version {_VERSION}, found {heading}", source=str(path))
        _ = manifest["format"], manifest["profile"]
        return dict(manifest)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Convert all errors of a malformed manifest to FormatError."""
    try:
        yield
    except FormatError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"cannot be read as a set: {error}", source=str(path)) from None


_FIELDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "file": ("file", str),
    "plan": ("plan", str),
    "name": ("name", str),
    "collective": ("collective", CollectiveKind),
    "ranks": ("n_ranks", int),
    "chunks": ("n_chunks", int),
    "in_place": ("in_place", bool),
    "min_bytes": ("min_bytes", int),
    "max_bytes": ("max_bytes", lambda value: None if value is None else int(value)),
    "root": ("root", int),
    "fills_in": ("fills_in", bool),
}
"""Fields of `RangedFile` and their types for the keys of a file in the manifest."""


def _file_of(row: Mapping[str, Any], folder: Path) -> RangedFile:
    """Return a runtime file of the manifest with its content; FormatError if it was changed."""
    with _reading(folder / MANIFEST):
        file = str(row["file"])
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise FormatError(f"{file!r} is outside the folder", source=str(folder / MANIFEST))
        data = (folder / file).read_bytes()
        if hashlib.sha256(data).hexdigest() != row["sha256"]:
            raise FormatError(
                "was changed since the set was written; lower its plan again", source=str(folder / file)
            )
        return RangedFile(data=data, **{field: kind(row[key]) for key, (field, kind) in _FIELDS.items()})


def _check_apart(texts: Sequence[RangedFile], target: Path) -> None:
    """Raise FormatError if two plans have files for the same calls, of which the runtime uses the first."""
    for one, other in combinations(texts, 2):
        calls, others = ((text.collective, text.n_ranks, text.in_place) for text in (one, other))
        overlap = all(
            a.max_bytes is None or b.min_bytes <= a.max_bytes for a, b in ((one, other), (other, one))
        )
        if one.plan != other.plan and calls == others and overlap:
            raise FormatError(
                f"{one.file} and {other.file} are for the same calls; narrow one (--min-size, "
                "--max-size) or name another folder",
                source=str(target),
            )


def _manifest(
    lowered: LoweredSet,
    texts: Sequence[RangedFile],
    titles: Mapping[str, tuple[str, str]],
    delivery: Delivery,
) -> dict[str, object]:
    rows = []
    for text in texts:
        algorithm, protocol = titles[text.file]
        fields = [(key, getattr(text, field)) for key, (field, _) in _FIELDS.items()]
        schedule = (("algorithm", algorithm), ("protocol", protocol or None))
        digest = ("sha256", hashlib.sha256(text.data).hexdigest())
        rows.append(dict((*fields[:3], *schedule, *fields[3:], digest)))
    return {
        "treadle": "set",
        "version": _VERSION,
        "format": lowered.format,
        "profile": lowered.dialect or None,
        "runtime": delivery.loading.runtime,
        "left_aside": delivery.loading.fallback,
        "texts": rows,
    }


def _replace_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Replace or create a folder with these files; FormatError, and no change, if that fails."""
    mark = secrets.token_hex(8)
    fresh, old = (target.with_name(f".{target.name[:200]}.{mark}.{what}") for what in ("partial", "old"))
    try:
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
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
