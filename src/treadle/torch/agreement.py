"""Comparison of the ranks' calls: at the first use of a call, and while a call does not end."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from threading import Event, Lock, Thread
from time import monotonic, sleep

import torch
from torch import Tensor
from torch._C._distributed_c10d import Store
from torch.distributed import DistBackendError, ReduceOp

from treadle.torch.plans import Membership
from treadle.torch.reductions import operation_name

PATIENCE_S = 1.0
"""A call that takes longer is compared with the other ranks' through the store."""

GRACE_S = 3.0
"""Longest wait of a rank that knows of an unlike call for the calls of the others."""
_MOST_SIGNATURES = 4096
_WORDS_BYTES = 192


@dataclass(frozen=True)
class CallSignature:
    """The part of a call that must be equal at all ranks.

    Parameters
    ----------
    name : str
        Of the collective.
    tensors : tuple of (int, torch.dtype)
        Elements and type of the tensors that have the same size at every rank.
    operation : str
        Of a reduction.
    root : int
        -1 where there is none.
    note : str
        Anything else that is the same at all ranks.
    """

    name: str
    tensors: tuple[tuple[int, torch.dtype], ...] = ()
    operation: str = ""
    root: int = -1
    note: str = ""

    @property
    def digest(self) -> bytes:
        """Eight bytes that stand for it."""
        return blake2b(repr(self).encode(), digest_size=8).digest()

    @property
    def summary(self) -> str:
        """The call in at most `_WORDS_BYTES` bytes."""
        sizes = [f"{count} {str(dtype).removeprefix('torch.')}" for count, dtype in self.tensors]
        if len(sizes) > 2:
            sizes = [f"{len(sizes)} tensors of {sizes[0]}, ..., {sizes[-1]}"]
        parts = (self.operation, f"of {' and '.join(sizes)}" if sizes else "", self.note)
        root = f"root {self.root}" if self.root >= 0 else ""
        return " ".join(filter(None, (self.name, *parts, root)))[:_WORDS_BYTES]


def signature(
    name: str, tensors: Sequence[Tensor], operation: ReduceOp | None = None, root: int = -1, note: str = ""
) -> CallSignature:
    """The signature of a call.

    Parameters
    ----------
    tensors : sequence of Tensor
        Those that have the same size at every rank.
    """
    sizes = tuple((tensor.numel(), tensor.dtype) for tensor in tensors)
    return CallSignature(
        name, sizes, "" if operation is None else operation_name(operation).lower(), root, note
    )


@dataclass(frozen=True)
class _CallUnderWay:
    """A call of this rank, and since when it is under way."""

    number: int
    signature: CallSignature
    since: float


class CallAgreement:
    """Compares the calls of one rank with those of the others.

    Parameters
    ----------
    store : Store
        Of the group's calls alone.
    gather : callable
        Exchanges as many bytes of every rank, of a call in words.
    stop : callable
        Called from another thread with an error message; makes the call under way fail.

    Notes
    -----
    At the first use of a signature the ranks exchange it. If one rank has used its signature before and
    another has not, or they use two that both are known, no message of one fits the other, so that both wait.
    A thread finds that through the store: the first signature of a call that is noted there is what the
    others compare their own with.
    """

    def __init__(
        self,
        store: Store,
        group: Membership,
        gather: Callable[[str, bytes], list[bytes]],
        stop: Callable[[str], None],
    ) -> None:
        self._store, self._group, self._gather, self._stop = store, group, gather, stop
        self._known: OrderedDict[CallSignature, None] = OrderedDict()
        self._number = 0
        self._under_way: _CallUnderWay | None = None
        self._closed, self._lock = Event(), Lock()
        self._thread: Thread | None = None

    @contextmanager
    def call(self, asked: CallSignature) -> Iterator[None]:
        """Compare the signature of the call that is made within, if it is new.

        Raises
        ------
        DistBackendError
            If the ranks call unlike.
        """
        if self._thread is None:
            self._thread = Thread(target=self._watch, name="treadle calls", daemon=True)
            self._thread.start()
        self._number += 1
        call = self._under_way = _CallUnderWay(self._number, asked, monotonic())
        try:
            if asked not in self._known:
                self.compare(asked)
                self._known[asked] = None
                if len(self._known) > _MOST_SIGNATURES:  # the same at all ranks, as their calls are
                    self._known.popitem(last=False)
            else:
                self._known.move_to_end(asked)
            yield
        except _UnlikeCallsError as error:
            raise DistBackendError(str(error)) from None
        except RuntimeError:
            words = self._unlike_calls(call)
            if not words:
                raise
            self._stop(words)
            raise DistBackendError(words) from None
        finally:
            self._under_way = None

    def compare(self, asked: CallSignature) -> None:
        """Exchange signatures with all ranks.

        Raises
        ------
        DistBackendError
            At every rank, if they are not the same.
        """
        own = asked.digest + asked.summary.encode()[:_WORDS_BYTES].ljust(_WORDS_BYTES)
        found = self._gather(asked.name, own)
        if any(one != own for one in found):
            raise _UnlikeCallsError(
                self._describe({rank: one[8:].decode().strip() for rank, one in enumerate(found)})
            )

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _describe(self, calls: dict[int, str]) -> str:
        ranks: defaultdict[str, list[int]] = defaultdict(list)
        for rank, words in sorted(calls.items()):
            ranks[words].append(rank)
        listed = "; ".join(
            f"{words} at rank{'s' * (len(own) > 1)} {_ranges(own)}" for words, own in ranks.items()
        )
        return (
            f"treadle: group {self._group.name}: the ranks call unlike: {listed}; pass tensors of the same "
            "size and type, and the same operation, at every rank"
        )

    def _watch(self) -> None:
        while not self._closed.wait(PATIENCE_S / 2):
            call = self._under_way
            if call is None or monotonic() - call.since < PATIENCE_S:
                continue
            words = self._unlike_calls(call)
            if words and self._under_way is call:
                self._stop(words)

    def _unlike_calls(self, call: _CallUnderWay) -> str:
        """Return the error message of unlike calls; empty where none are known."""
        key, own = str(call.number), call.signature.digest.hex()
        try:
            with self._lock:
                # one entry for all ranks: many of them may be in a long call
                if self._store.compare_set(f"{key}/first", "", own).decode() != own:
                    self._store.set(f"{key}/unlike", "1")
                if self._store.check([f"{key}/unlike"]):
                    self._store.set(f"{key}/{self._group.rank}", json.dumps(call.signature.summary))
                    words = self._describe(self._calls_of_ranks(key))
                    self._store.set("found", words)
                    return words
                # a rank whose part of an unlike call was like the others' hears of it in its next call
                return self._store.get("found").decode() if self._store.check(["found"]) else ""
        except RuntimeError:  # the store's process has ended, and with it what others have said
            return ""

    def _calls_of_ranks(self, key: str) -> dict[int, str]:
        """Collect the calls of the ranks that are in this call now."""
        found: dict[int, str] = {}
        end = monotonic() + GRACE_S
        n_ranks = len(self._group.places)
        while len(found) < n_ranks and monotonic() < end:
            for rank in range(n_ranks):
                if rank not in found and self._store.check([f"{key}/{rank}"]):
                    found[rank] = str(json.loads(self._store.get(f"{key}/{rank}")))
            sleep(0.01)
        return found


class _UnlikeCallsError(DistBackendError):
    """All ranks know that they call unlike; nothing has been sent."""


def _ranges(ranks: Sequence[int]) -> str:
    """Rising numbers as text, e.g. 0-2, 5."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
