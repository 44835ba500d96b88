"""Plan files with damages of every depth: bytes, members, JSON, arrays. Read or refused, never believed."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from reference.optimum import algbw_by_all_cuts
from samples.strategies import damaged, damages
from treadle import planning
from treadle.errors import TreadleError
from treadle.input_files import parse_json
from treadle.inputs.verification import UnverifiedPlanError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import parse_plan
from treadle.topologies import topology_hash
from treadle.topologies.files import topology_from_json

from ..finding import Case, UnservedError, require
from . import samples
from .schedules import check_data
from .target import Target

_EXTREMES = (0, 1, -1, 2, 127, -128, 255, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1)
_SHAPES = ("(0,)", "(1,)", "(1000000000,)", "(999999999999999999,)", "(2, 3)", "()", "(2147483648,)")
_BOMB = 2**26
MOST_NODES, MOST_RANKS = 10, 16
"""Of accepted plans that are judged again the slow way."""

Members = dict[str, bytes]
Step = tuple[str, float, float, Any]


@st.composite
def _steps(draw: Any) -> list[Step]:
    """What is done to which member, where, and with what."""
    share = st.floats(0, 1, allow_nan=False)
    kinds = (
        ["number"] * 4
        + ["text"] * 3
        + ["exchange", "length", "shape", "width", "drop", "copy", "bomb", "byte"]
    )
    found: list[Step] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds))
        match kind:
            case "number":
                what: Any = draw(st.tuples(st.booleans(), st.sampled_from(_EXTREMES) | st.integers(-9, 9)))
            case "text":
                what = draw(damages())
            case "shape":
                what = draw(st.sampled_from(_SHAPES))
            case "byte":
                what = draw(st.integers(0, 255))
            case _:
                what = None
        found.append((kind, draw(share), draw(share), what))
    return found


@st.composite
def _cases(draw: Any) -> Case:
    name = draw(st.sampled_from(sorted(samples.PLANS)))
    steps = draw(_steps())
    with zipfile.ZipFile(io.BytesIO(samples.plan_bytes(name))) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    for kind, which, where, what in steps:
        if kind != "byte":
            _damage(members, kind, which, where, what)
    if draw(st.integers(0, 3)):
        _sign(members)
    content = _packed(members)
    for kind, which, where, what in steps:
        if kind == "byte":
            at = int(which * (len(content) - 1))
            content = content[:at] + bytes([what]) + content[at + int(where * 3) :]
    return {"base": name, "file": base64.b64encode(content).decode()}


def _damage(members: Members, kind: str, which: float, where: float, what: Any) -> None:
    """Do one step to the members; nothing if there is nothing to do it to."""
    texts = [name for name in members if name.endswith(".json")]
    arrays = [name for name in members if name.endswith(".npy")]
    chosen = texts if kind == "text" else arrays if kind in _OF_ARRAYS else list(members)
    if not chosen:
        return
    name = chosen[int(which * (len(chosen) - 1))]
    if kind == "text":
        text = members[name].decode("utf-8", "replace")
        members[name] = damaged(text, what).encode("utf-8", "surrogatepass")
    elif kind == "drop":
        del members[name]
    elif kind == "copy":
        members[f"{name}x"] = members[name]
    elif kind == "bomb":
        members[name] += b"\0" * int(where * _BOMB)
    elif kind == "shape":
        members[name] = re.sub(rb"'shape': \([^)]*\)", b"'shape': " + what.encode(), members[name], count=1)
    else:
        values = _values(members[name])
        if values is not None:
            members[name] = _npy(_OF_ARRAYS[kind](values, where, what))


def _values(content: bytes) -> np.ndarray | None:
    """A member's array, if it still is one."""
    try:
        found = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # whatever numpy's reader of headers makes of nonsense, SyntaxError among others
        return None
    return found.astype(np.int64) if found.ndim and found.size else None


def _npy(values: np.ndarray) -> bytes:
    """An array of the narrowest width, as plans have them."""
    width = next(w for w in (1, 2, 4, 8) if (values == values.astype(f"<i{w}")).all())
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, values.astype(f"<i{width}"), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _number(values: np.ndarray, where: float, what: tuple[bool, int]) -> np.ndarray:
    flat = values.reshape(-1)
    at = int(where * (flat.size - 1))
    added = int(flat[at]) + what[1] if what[0] else what[1]
    flat[at] = np.clip(added, -(2**63), 2**63 - 1)
    return values


def _exchange(values: np.ndarray, where: float, _: object) -> np.ndarray:
    flat = values.reshape(-1)
    at, other = int(where * (flat.size - 1)), int(where * 7919 * flat.size) % flat.size
    flat[at], flat[other] = flat[other], flat[at]
    return values


def _length(values: np.ndarray, where: float, _: object) -> np.ndarray:
    cut: np.ndarray = (
        values[: int(where * len(values))] if where < 0.5 else np.concatenate([values, values[-1:]])
    )
    return cut


def _width(values: np.ndarray, where: float, _: object) -> np.ndarray:
    return np.concatenate([values, values[:1] * 0 + 2 ** int(where * 62)])


_OF_ARRAYS: dict[str, Callable[[np.ndarray, float, Any], np.ndarray]] = {
    "number": _number,
    "exchange": _exchange,
    "length": _length,
    "width": _width,
    "shape": _length,  # done to the header
}


def _sign(members: Members) -> None:
    """Let the manifest have the hash of the fabric, so that damage to it gets further."""
    try:
        fabric = topology_from_json(parse_json(members["topology.json"].decode()))
        manifest = json.loads(members["manifest.json"])
        manifest["topology_sha256"] = topology_hash(fabric)
        members["manifest.json"] = json.dumps(manifest).encode()
    except (TreadleError, ValueError, KeyError, TypeError, RecursionError):
        return


def _packed(members: Members) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _check(case: Case) -> None:
    try:
        plan = parse_plan(base64.b64decode(case["file"]), source="damaged.plan")
        result = planning.verify(plan)
    except TreadleError as error:
        require("\n" not in str(error), "a message of several lines", str(error))
        require(len(str(error)) < 2000, "a long message", str(error))
        raise UnservedError from None
    if result.is_ok:
        _judge_again(plan)


def _judge_again(plan: Plan) -> None:
    """An accepted plan keeps to every cut and moves the right data."""
    collective, kind = plan.collective, plan.collective.kind
    if (
        kind not in (CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL)
        and plan.topology.n_nodes <= MOST_NODES
    ):
        most = algbw_by_all_cuts(plan.topology, collective)
        require(plan.algbw <= most, "an accepted plan beyond the least cut", (plan.algbw, most))
    size = plan.entries[-1].min_bytes or 4096
    if collective.n_ranks > MOST_RANKS or size > 2**20:
        return
    try:
        check_data(plan, size)
    except UnverifiedPlanError:
        raise
    except TreadleError:
        raise UnservedError from None  # plans may hold what no runtime here takes


PLAN_FILES = Target("plan-files", _cases(), _check, 150)
