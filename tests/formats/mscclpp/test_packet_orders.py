"""Random plans of packets: what the interpreter accepts is right in any order that memory allows.

The threads that move packets and those that copy run apart within a block; a store waits in its thread's
buffer and lands late, packets and other data in no order, at the next ``nop`` at the latest. By hand 6,000
plans of 30 orders each were tried (`PLANS` and `ORDERS` so large).
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

from formats.mscclpp.test_packet_machine import DOUBLE, Text, in_place, step, text_of
from treadle.formats.mscclpp.interpreter import interpret_mscclpp_json

PLANS, ORDERS = 80, 10
_Cell = tuple[int, str, int]
_Value = Counter[tuple[int, int]]


def random_plan(rng: random.Random) -> list[list[list[Text]]]:
    """An allreduce in place of two ranks, cut into blocks anyhow, with operations that may harm it."""
    ranks = []
    for rank in (0, 1):
        blocks: list[list[Text]] = [[] for _ in range(rng.randint(1, 3))]
        for operation in in_place(rank):
            rng.choice(blocks).append(operation)
        for _ in range(rng.randint(0, 2)):
            extra = rng.choice(
                [
                    step("nop"),
                    step("copy", ("i", rng.randint(0, 1)), ("s", 6)),
                    step("copy", ("i", rng.randint(0, 1)), ("s", 7)),
                    step("upkt", ("s", 1), ("i", rng.randint(0, 1))),
                    step("upkt", ("s", rng.randint(0, 1)), ("s", 6)),
                ]
            )
            block = rng.choice(blocks)
            block.insert(rng.randint(0, len(block)), extra)
        ranks.append(blocks)
    return ranks


class Thread:
    """A thread's operations up to the next meeting of its block, and its stores that have not landed."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.waiting: list[Text] = []
        self.buffer: list[tuple[_Cell, _Value]] = []


class Memory:
    """Two ranks at work in one random order."""

    def __init__(self, plan: Any, rng: random.Random) -> None:
        self.rng = rng
        self.plain: dict[_Cell, _Value] = {
            (rank, "i", chunk): Counter({(rank, chunk): 1}) for rank in (0, 1) for chunk in (0, 1)
        }
        self.packets: dict[_Cell, _Value] = {}
        self.blocks = [
            (rank, list(block["ops"]))
            for rank, gpu in enumerate(plan["gpus"])
            for block in gpu["threadblocks"]
        ]
        self.threads = [(Thread(rank), Thread(rank)) for rank, _ in self.blocks]

    def run(self) -> bool:
        """Whether all got through."""
        while True:
            moves = []
            for number, (_, operations) in enumerate(self.blocks):
                for thread in self.threads[number]:
                    if thread.waiting and self.is_ready(thread):
                        moves.append((self.move, thread))
                    if thread.buffer:
                        moves.append((self.land, thread))
                if operations and (
                    operations[0]["name"] != "nop" or not any(one.waiting for one in self.threads[number])
                ):
                    moves.append((self.issue, number))
            if not moves:
                return not any(one.waiting for pair in self.threads for one in pair) and not any(
                    operations for _, operations in self.blocks
                )
            act, what = self.rng.choice(moves)
            act(what)

    def issue(self, number: int) -> None:
        """Give an operation to the threads that run it; at a nop all stores of the block land."""
        operation = self.blocks[number][1].pop(0)
        by_packets, copying = self.threads[number]
        if operation["name"] == "nop":
            for thread in (by_packets, copying):
                while thread.buffer:
                    self.land(thread)
        else:
            (copying if operation["name"] == "copy" else by_packets).waiting.append(operation)

    def is_ready(self, thread: Thread) -> bool:
        read = self.ends(thread, thread.waiting[0])[0]
        return all(cell in self.packets for cell in read if cell[1] == "packets")

    def ends(self, thread: Thread, operation: Any) -> tuple[list[_Cell], list[_Cell]]:
        """Cells that it reads and writes; scratch holds packets but for what is copied or stored there."""
        found = []
        for key in ("src_buff", "dst_buff"):
            cells = []
            for end in operation[key]:
                rank = 1 - thread.rank if "buffer_id" in end else thread.rank
                letter = "s" if "buffer_id" in end else str(end["type"])
                cells.append(
                    (rank, "packets" if letter == "s" and end["index"] < 2 else letter, end["index"])
                )
            found.append(cells)
        return found[0], found[1]

    def move(self, thread: Thread) -> None:
        reads, writes = self.ends(thread, thread.waiting.pop(0))
        total: _Value = Counter()
        for cell in reads:
            own = [value for place, value in thread.buffer if place == cell]
            total += own[-1] if own else (self.packets if cell[1] == "packets" else self.plain)[cell]
        thread.buffer += [(cell, total) for cell in writes]

    def land(self, thread: Thread) -> None:
        """Let a store land: the first of its cell."""
        places = [cell for cell, _ in thread.buffer]
        number = places.index(self.rng.choice(places))
        cell, value = thread.buffer.pop(number)
        (self.packets if cell[1] == "packets" else self.plain)[cell] = value


def test_accepted_plans_are_right_in_any_order() -> None:
    rng, seen = random.Random(11), Counter[tuple[bool, bool]]()
    for _ in range(PLANS):
        text = text_of("allreduce", (2, 2, 8), random_plan(rng), **DOUBLE)
        is_accepted = not interpret_mscclpp_json(text).violations
        plan = json.loads(text)
        goes_wrong = False
        for _ in range(ORDERS):
            memory = Memory(plan, rng)
            both = {(rank, chunk): {(0, chunk): 1, (1, chunk): 1} for rank in (0, 1) for chunk in (0, 1)}
            goes_wrong |= not memory.run() or any(
                memory.plain[rank, "i", chunk] != sums for (rank, chunk), sums in both.items()
            )
        assert not (is_accepted and goes_wrong), text
        seen[is_accepted, goes_wrong] += 1
    assert seen[True, False] > PLANS // 10
    assert seen[False, True] > PLANS // 10
