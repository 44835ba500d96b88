"""Which of a plan's in-network copies and sums an MSCCL++ text leaves to switches."""

from __future__ import annotations

import json

from treadle.formats.request import Asked


def asked_in(text: str) -> Asked:
    """The operations of switches in a text of `emit_mscclpp_json`, which writes them into whole outputs."""
    stores: set[tuple[int, int]] = set()
    sums: set[tuple[int, int]] = set()
    if not any(name in text for name in ("gstore", "glres")):
        return Asked(frozenset(), frozenset())  # most texts, which may be large
    for gpu in json.loads(text)["gpus"]:
        for block in gpu["threadblocks"]:
            for operation in (inner for outer in block["ops"] for inner in (outer, *outer.get("ops", ()))):
                if operation["name"] not in ("gstore", "glres"):
                    continue
                (target,) = operation["dst_buff"]
                chunks = range(target["index"], target["index"] + target["size"])
                stores.update((gpu["id"], chunk) for chunk in chunks)
                if operation["name"] == "glres":
                    sums.update((gpu["id"], chunk) for chunk in chunks)
    return Asked(frozenset(stores), frozenset(sums))
