"""XMLs with one fault each, for the executor of texts. They are changed as XML: nothing reads them here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy

from lxml import etree


def exchange_attributes(one: etree._Element, other: etree._Element, *keys: str) -> None:
    for key in keys:
        one.attrib[key], other.attrib[key] = other.attrib[key], one.attrib[key]


def msccl_sends(top: etree._Element) -> list[etree._Element]:
    """The first rank's steps of its first thread block that only sends."""
    block = next(block for block in top[0] if block.get("recv") == "-1")
    return [step for step in block if step.get("type") == "s"]


def msccl_dropped(top: etree._Element) -> None:
    msccl_sends(top)[0].attrib.update({"type": "nop", "cnt": "0", "srcoff": "-1", "dstoff": "-1"})


def msccl_swapped(top: etree._Element) -> None:
    first, second = msccl_sends(top)[:2]
    assert first.get("srcoff") != second.get("srcoff")
    exchange_attributes(first, second, "srcbuf", "srcoff", "dstbuf", "dstoff")


def msccl_duplicated(top: etree._Element) -> None:
    """The steps after it, and what waits for them, move by one."""
    send = msccl_sends(top)[0]
    block = send.getparent()
    assert block is not None
    place = int(send.attrib["s"])
    for step in top[0].iter("step"):
        if step.get("depid") == block.get("id") and int(step.attrib["deps"]) >= place:
            step.set("deps", str(int(step.attrib["deps"]) + 1))
    block.insert(place, deepcopy(send))
    for number, step in enumerate(block):
        step.set("s", str(number))


def msccl_hasty(top: etree._Element) -> None:
    for step in top.iter("step"):
        step.attrib.update({"depid": "-1", "deps": "-1", "hasdep": "0"})


def cpu_sends(top: etree._Element) -> list[etree._Element]:
    """The first rank's sends to the peer of its first."""
    sends = list(top[0].iter("send"))
    return [send for send in sends if send.get("peer") == sends[0].get("peer")]


def cpu_dropped(top: etree._Element) -> None:
    top[0].remove(cpu_sends(top)[0])


def cpu_swapped(top: etree._Element) -> None:
    first, second = cpu_sends(top)[:2]
    assert first.get("chunk") != second.get("chunk")
    exchange_attributes(first, second, "buf", "chunk")


def cpu_duplicated(top: etree._Element) -> None:
    send = cpu_sends(top)[0]
    send.addnext(deepcopy(send))


def cpu_hasty(top: etree._Element) -> None:
    for rank in top:
        for sync in list(rank.iter("sync"))[:-1]:
            rank.remove(sync)


FAULTS: Mapping[str, Mapping[str, Callable[[etree._Element], None]]] = {
    "msccl-xml": {
        "dropped send": msccl_dropped,
        "swapped sends": msccl_swapped,
        "duplicated send": msccl_duplicated,
        "missing dependences": msccl_hasty,
    },
    "cpu-xml": {
        "dropped send": cpu_dropped,
        "swapped sends": cpu_swapped,
        "duplicated send": cpu_duplicated,
        "missing dependences": cpu_hasty,
    },
}


def mutant(text: str, target: str, fault: str) -> str:
    """A text with a fault."""
    top = etree.fromstring(text)
    FAULTS[target][fault](top)
    changed = etree.tostring(top, encoding="unicode")
    assert changed != etree.tostring(etree.fromstring(text), encoding="unicode")
    return changed
