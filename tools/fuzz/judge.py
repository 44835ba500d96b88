"""One case checked in this process, and everything that can go wrong told as a finding."""

from __future__ import annotations

import warnings
from dataclasses import replace

from treadle.errors import TreadleError
from treadle.planning import RejectedError

from .finding import Case, Finding, Kind, UnservedError, WrongAnswerError, described, place_of, plain
from .limits import MEMORY_BYTES, peak_bytes, restart_peak
from .targets import TARGETS


def judge(target: str, case: Case) -> Finding | None:
    """What is wrong with a case; None if nothing is.

    A case that hangs or ends the process is told by `supervisor`.
    """
    restart_peak()
    before = peak_bytes()  # much in the tests' processes, which keep what earlier tests made
    found = _judged(target, case)
    taken = peak_bytes() - before
    if found is None and taken > MEMORY_BYTES:
        return Finding(target, Kind.MEMORY, "peak", f"{taken / 2**20:.0f} MB were taken at a time", case)
    return found


def _judged(target: str, case: Case) -> Finding | None:
    found = Finding(target, Kind.CRASH, "", "", case)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            TARGETS[target].check(case)
    except UnservedError:
        return None
    except WrongAnswerError as error:
        return replace(found, kind=Kind.WRONG, place=error.place, message=described(error))
    except RejectedError as error:
        return replace(found, kind=Kind.WRONG, place=plain(str(error)), message=described(error))
    except TreadleError as error:
        return replace(found, kind=Kind.REFUSED, place=plain(str(error)), message=described(error))
    except MemoryError as error:
        return replace(found, kind=Kind.MEMORY, place=place_of(error), message=described(error))
    except Exception as error:
        return replace(found, place=place_of(error), message=described(error))
    return None
