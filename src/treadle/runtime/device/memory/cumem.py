"""Memory of one host's GPUs by CUDA's functions for virtual memory, with multicast where NVSwitch has it.

Ranks are processes or threads, each with a GPU. Memory and multicast objects go from rank to rank as file
descriptors through sockets of this host. Never run on a GPU.
"""

from __future__ import annotations

import os
import select
import socket
from array import array
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from time import monotonic

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.runtime.device.memory.gpu_library import gpu_library
from treadle.runtime.device.memory.peer_memory import Exchange, PeerBlock, PeerMemory

_LIMIT_S = 60.0
_LEAST_RANKS = 2


class CuMemMemory(PeerMemory):
    """Memory that is made, shared and mapped by cuMemCreate and its like.

    Parameters
    ----------
    device : int
        Of this rank. Multicast needs another one for each rank.

    Raises
    ------
    MissingDependencyError
        At all ranks, if one has no GPU, or cannot map a peer's memory.
    """

    def __init__(self, rank: int, exchange: Exchange, device: int = 0) -> None:
        super().__init__(rank, exchange, "CUDA's virtual memory")
        self._library = gpu_library()
        self._mapped: list[int] = []
        self._open(lambda: self._begin(device))

    def _begin(self, device: int) -> None:
        self._together(lambda: self._library.call("treadle_peer_device", device))
        problem = ""
        try:
            self._library.count("treadle_cumem_has_multicast")
        except ScheduleError as error:
            problem = str(error)
        self.no_multicast = self._agreed(problem)

    def _allocate(self, size: int, groups: Sequence[tuple[int, ...]]) -> PeerBlock:
        """See `PeerMemory`; why a group has no address says `no_multicast`."""
        asked = [] if self.no_multicast else [group for group in groups if len(group) >= _LEAST_RANKS]
        most = max(map(len, asked), default=0)
        room, own = self._together(lambda: self._create(size, most))
        peers = [peer for peer in range(self.n_ranks) if peer != self.rank]
        found = self._descriptors(lambda: {peer: self._export(own) for peer in peers})
        addresses = self._together(lambda: self._map_all(own, room, found))
        multicast = {}
        for group in asked:
            address = self._join_multicast(group, own, room)
            if self.no_multicast:  # the same at all ranks
                break
            multicast[group] = address
        return PeerBlock(size, addresses, multicast)

    def _create(self, size: int, devices: int) -> tuple[int, int]:
        room = self._library.count("treadle_cumem_size", size, devices)
        return room, self._keep(self._library.address("treadle_cumem_create", room))

    def _keep(self, handle: int) -> int:
        self._mapped.append(handle)
        return handle

    def _export(self, handle: int) -> int:
        return self._library.count("treadle_cumem_export", handle)

    def _map_all(self, own: int, room: int, found: Mapping[int, int]) -> tuple[int, ...]:
        addresses = [0] * self.n_ranks
        try:
            addresses[self.rank] = self._library.address("treadle_cumem_map", own)
            self._library.call("treadle_peer_zero", addresses[self.rank], room)
            for peer, descriptor in found.items():
                handle = self._keep(self._library.address("treadle_cumem_import", descriptor, room))
                addresses[peer] = self._library.address("treadle_cumem_map", handle)
        finally:
            for descriptor in found.values():
                os.close(descriptor)
        return tuple(addresses)

    def _join_multicast(self, group: tuple[int, ...], own: int, room: int) -> int:
        """Address that reaches a group's memory; 0 where this rank is not of it, or `no_multicast` says why.

        All GPUs of a group must have been added before memory is bound, and all memory be bound before any
        is used.
        """
        handle, is_in = 0, self.rank in group

        def leader() -> dict[int, int]:
            nonlocal handle
            if self.rank != group[0]:
                return {}
            handle = self._keep(self._library.address("treadle_cumem_multicast", room, len(group)))
            return {peer: self._export(handle) for peer in group[1:]}

        def add() -> None:
            nonlocal handle
            for descriptor in found.values():
                try:
                    handle = self._keep(self._library.address("treadle_cumem_import", descriptor, room))
                finally:
                    os.close(descriptor)
            if is_in:
                self._library.call("treadle_cumem_add", handle)

        def bind() -> None:
            if is_in:
                self._library.call("treadle_cumem_bind", handle, own)

        try:
            found = self._descriptors(leader)
            self._together(add)
            self._together(bind)
            return self._together(lambda: self._library.address("treadle_cumem_map", handle) if is_in else 0)
        except MissingDependencyError as error:
            self.no_multicast = str(error)  # the same at all ranks
            return 0

    def _descriptors(self, given: Callable[[], Mapping[int, int]]) -> dict[int, int]:
        """Descriptors that peers give this rank, by peer; `given` are its own for others, which are closed.

        Each rank announces to the others for which ranks it has one, so that they know what to wait for.
        """
        name = f"\0treadle-{os.getpid()}-{token_hex(16)}"
        own: Mapping[int, int] = {}
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            try:

                def begin() -> None:
                    nonlocal own
                    receiver.bind(name)
                    own = given()

                self._together(begin)
                said = [one.decode() for one in self.exchange(f"{name} {','.join(map(str, own))}".encode())]
                names, lists = zip(*(one.split(" ", 1) for one in said), strict=True)
                senders = {peer for peer, listed in enumerate(lists) if str(self.rank) in listed.split(",")}
                return self._together(lambda: _passed(receiver, self.rank, own, names, senders))
            finally:
                for descriptor in own.values():
                    os.close(descriptor)

    def close(self) -> None:
        """Unmap and release everything, multicast objects before the memory that is bound to them."""
        for one in reversed(self._mapped):
            self._library.c.treadle_cumem_free(one)
        self._mapped = []


def _passed(
    receiver: socket.socket, rank: int, own: Mapping[int, int], names: Sequence[str], senders: set[int]
) -> dict[int, int]:
    """Exchange descriptors with peers over sockets, sending or receiving whichever is ready first.

    A message is the name of the receiver, which only the group knows, and the rank that sends.
    """
    found: dict[int, int] = {}
    waiting = dict(own)
    end = monotonic() + _LIMIT_S
    receiver.setblocking(False)
    while waiting or senders - found.keys():
        if monotonic() > end:
            raise MissingDependencyError(
                f"rank {min(senders - found.keys(), default=rank)} passes no descriptor"
            )
        for peer, descriptor in list(waiting.items()):
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]))]
            try:
                receiver.sendmsg([f"{names[peer]} {rank}".encode()], passed, 0, names[peer])
            except BlockingIOError:
                continue  # it has not taken others' yet
            del waiting[peer]
        select.select([receiver], [], [], 0.001 if waiting else 0.05)
        try:
            data, descriptors, _, _ = socket.recv_fds(receiver, 256, 1)
        except BlockingIOError:
            continue
        for descriptor in descriptors:
            words = data.decode(errors="replace").rsplit(" ", 1)
            if words[0] == names[rank] and words[-1].isdecimal() and int(words[-1]) in senders - found.keys():
                found[int(words[-1])] = descriptor
            else:
                os.close(descriptor)
    return found
