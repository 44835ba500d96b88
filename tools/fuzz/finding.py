"""What a check of a case can show, and where."""

from __future__ import annotations

import re
import traceback
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

MESSAGE_LENGTH = 2000

Case = Any
"""A JSON value from which a target makes its fabrics, plans and texts."""


class Kind(StrEnum):
    """What is wrong."""

    CRASH = "crash"
    """An exception that is no TreadleError."""
    REFUSED = "refused"
    """A TreadleError against what should be served."""
    WRONG = "wrong"
    """An answer that an independent check rejects."""
    HANG = "hang"
    MEMORY = "memory"
    DIED = "died"
    """The process ended, by a signal for instance."""


@dataclass(frozen=True)
class Finding:
    """A case and what is wrong with it.

    Parameters
    ----------
    target : str
    kind : Kind
    place : str
        Tells findings of a kind apart; the same for all cases that show one fault, as far as can be told.
    message : str
        For people; not part of what a finding is.
    case : JSON value
    """

    target: str
    kind: Kind
    place: str
    message: str
    case: Case

    @property
    def signature(self) -> tuple[str, str, str]:
        """Equal for findings that are taken to be one."""
        return self.target, self.kind, self.place

    @property
    def name(self) -> str:
        """A file's name, without suffix, from the signature."""
        return f"{self.target}-{self.kind}-{sha256(repr(self.signature).encode()).hexdigest()[:8]}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object with all of it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """What `to_json` wrote."""
        return cls(**{**value, "kind": Kind(value["kind"])})


class WrongAnswerError(Exception):
    """Raised by a check: an answer is wrong.

    Parameters
    ----------
    place : str
        What is wrong, in words that do not depend on the case.
    detail : object
        What was found.
    """

    def __init__(self, place: str, detail: object = "") -> None:
        super().__init__(f"{place}: {detail}")
        self.place = place


class UnservedError(Exception):
    """Raised by a check: the case says nothing, since it was rightly refused."""


def require(holds: bool, place: str, detail: object = "") -> None:
    """Raise WrongAnswerError unless something holds."""
    if not holds:
        raise WrongAnswerError(place, detail)


def place_of(error: BaseException) -> str:
    """An exception's type and the innermost function of the package that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/treadle/" in frame.filename]
    frame = (own or list(frames))[-1]
    return f"{type(error).__name__} in {Path(frame.filename).stem}.{frame.name}"


def plain(message: str) -> str:
    """A message without names and numbers, so that messages of one kind are equal."""
    words = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", " ".join(message.split()))
    return re.sub(r"-?\d[\d.e+/-]*", "#", words)[:100]


def described(error: BaseException) -> str:
    """An exception with its last frames."""
    text = "".join(traceback.format_exception(error, limit=-6))
    return text[-MESSAGE_LENGTH:].encode("utf-8", "backslashreplace").decode()
