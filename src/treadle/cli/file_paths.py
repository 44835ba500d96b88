"""Paths of the runtime files that ``treadle lower`` writes."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from treadle.atomic import check_parent, new_folder
from treadle.errors import FormatError
from treadle.input_files import read_head
from treadle.planning import Format, Profile

_HEAD = 4096
"""Bytes read of a file to recognise a runtime file."""


@dataclass(frozen=True)
class RuntimeFilePath:
    """Path of a runtime file.

    Parameters
    ----------
    path : Path
        Of the file, or the prefix of several.
    is_own_folder : bool
        Whether a folder was named, and the file's name follows from the plan's.
    target : Format
        Of the files.
    """

    path: Path
    is_own_folder: bool
    target: Format

    def folder(self) -> AbstractContextManager[object]:
        """Make the folder that was named for what the block writes; see `treadle.atomic.new_folder`."""
        return new_folder(self.path.parent) if self.is_own_folder else nullcontext()

    def targets(self, files: tuple[tuple[str, bytes], ...]) -> list[tuple[Path, bytes]]:
        """Return the path of each file: next to `path`, with its suffix before the extension."""
        path = self.path
        stem = path.with_suffix("") if path.suffix else path
        found = []
        for suffix, data in files:
            ending = "" if suffix.endswith(self.target.extension) else path.suffix
            found.append((path if not suffix else stem.with_name(f"{stem.name}{suffix}{ending}"), data))
        return found


def output_path(output: str, plan: Path, target: Format) -> RuntimeFilePath:
    """A file as it was named; in a folder, one that is named like the plan."""
    path = Path(output)
    if not (output.endswith(("/", os.sep)) or path.is_dir()):
        check_parent(path)
        return RuntimeFilePath(path, is_own_folder=False, target=target)
    ending = "" if target.is_per_rank else target.extension
    return RuntimeFilePath(path / f"{plan.stem}{ending}", is_own_folder=True, target=target)


def group_output_path(folder: RuntimeFilePath, plan: Path, group: str) -> RuntimeFilePath:
    """The file of one of several groups in a folder that was named: like the plan, and the group.

    Where a runtime parses all files of its folder, each has a folder of its own: the runtime cannot
    distinguish the groups' files.
    """
    name, target = f"{plan.stem}-{group}", folder.target
    ending = "" if target.is_per_rank else target.extension
    parent = folder.path.parent / name if target.parses_folder else folder.path.parent
    return RuntimeFilePath(parent / f"{name}{ending}", is_own_folder=True, target=target)


def check_folder(place: RuntimeFilePath, profile: Profile | None) -> None:
    """Reject a folder with files that MSCCL cannot parse: it would end at the first one.

    Raises
    ------
    FormatError
        Names the file. The legacy runtime takes files by name, and other runtimes read no folder.
    """
    if not place.is_own_folder or not place.target.parses_folder or profile is Profile.LEGACY:
        return
    folder = place.path.parent
    try:
        others = [entry for entry in sorted(folder.iterdir()) if entry != place.path and entry.is_file()]
        foreign = [entry for entry in others if not _is_of(place.target, entry)]
    except FileNotFoundError:
        return
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}", source=str(folder)) from None
    if foreign:
        raise FormatError(
            f"holds {foreign[0].name!r}, which is not an MSCCL file, and the runtime parses every file of "
            "its folder; name a folder that is empty or does not exist yet",
            source=str(folder),
        )


def _is_of(target: Format, path: Path) -> bool:
    return target.is_begun_by(read_head(path, _HEAD).decode("utf-8", "replace"))
