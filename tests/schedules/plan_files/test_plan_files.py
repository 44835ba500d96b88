"""Plan files: round trips, and everything that can be wrong with a file."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from samples import forest_samples as samples
from treadle.errors import FormatError, MemoryLimitError, ScheduleError
from treadle.planning import solve
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Pipelining, Plan, PlanEntry
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.schedules.plan_files.manifest_values import indented
from treadle.verification.schedules import verify, verify_plan


def ring_plan() -> Plan:
    topology, collective, schedule = samples.ring_allgather()
    return Plan(
        topology=topology,
        collective=collective,
        entries=(PlanEntry(0, 1023, schedule), PlanEntry(1024, None, schedule)),
        algorithm="by hand",
        algbw=Fraction(8),
        optimal_algbw=Fraction(8),
        certificate=BottleneckCut((0, 1, 2)),
        provenance={"version": "0.1.0", "seconds": 0.25, "seed": 3, "name": "ü"},
    )


def sample_plan(name: str) -> Plan:
    topology, collective, schedule = samples.SAMPLES[name]()
    algbw = verify(topology, collective, schedule).algbw
    assert algbw is not None
    return Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", algbw)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "ring.plan"
    save_plan(path, ring_plan())
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, content: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def edit(path: Path, change: Callable[[dict], object]) -> None:
    content = members(path)
    manifest = json.loads(content["manifest.json"])
    change(manifest)
    write(path, {**content, "manifest.json": json.dumps(manifest).encode()})


def refuse(path: Path, match: str | None = None) -> None:
    with pytest.raises(FormatError, match=match) as caught:
        load_plan(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_round_trip(name: str, tmp_path: Path) -> None:
    plan = sample_plan(name)
    save_plan(tmp_path / "a", plan)
    assert load_plan(tmp_path / "a") == plan
    save_plan(tmp_path / "b", load_plan(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert all(report.is_ok for report in verify_plan(load_plan(tmp_path / "a")))


def test_everything_survives(saved: Path) -> None:
    plan = load_plan(saved)
    assert plan == ring_plan()
    assert hash(plan) == hash(ring_plan())
    assert plan.provenance == ring_plan().provenance
    assert plan.entries[0].schedule.broadcast is plan.entries[1].schedule.broadcast
    first, last = verify_plan(plan)
    assert first.is_ok
    assert last.is_optimal


def test_large_values_survive(tmp_path: Path) -> None:
    topology, collective, schedule = samples.ring_allgather()
    forest = schedule.broadcast
    assert forest is not None
    keys = ("root_multiplicity", "tree_multiplicity", "entry_units")
    large = replace(forest, **{key: getattr(forest, key) * (2**62 + 1) for key in keys})
    entry = PlanEntry(0, None, replace(schedule, broadcast=large))
    plan = Plan(topology, collective, (entry,), "by hand", Fraction(8))
    save_plan(tmp_path / "plan", plan)
    assert load_plan(tmp_path / "plan") == plan
    assert verify_plan(plan)[0].is_ok


def test_truncated_anywhere(saved: Path) -> None:
    data = saved.read_bytes()
    for size in [*range(0, len(data), 7), len(data) - 1]:
        saved.write_bytes(data[:size])
        refuse(saved)


def test_flipped_bits(saved: Path) -> None:
    data = saved.read_bytes()
    plan = ring_plan()
    refusals = []
    for position in range(0, len(data), 13):
        changed = bytearray(data)
        changed[position] ^= 1 << (position % 8)
        saved.write_bytes(changed)
        try:
            found = load_plan(saved)
        except FormatError as error:
            refusals.append(str(error))
            continue
        assert found == plan or not all(report.is_ok for report in verify_plan(found))
    assert len(refusals) > 40
    assert not any("\n" in refusal for refusal in refusals)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(algbw="9/1"),
        lambda m: m.update(algbw="7/1"),
        lambda m: m.update(optimal_algbw="9/1"),
        lambda m: m["witness"].update(nodes=[0, 1]),
        lambda m: m["witness"].update(nodes=[0, 1, 2, 3]),
        lambda m: m["witness"].update(nodes=[0, 1, 77]),
        lambda m: m["collective"].update(weights=[1, 1, 1, 2]),
        lambda m: m["collective"].update(ranks=[1, 0, 2, 3]),
    ],
)
def test_edited_claims_never_verify(saved: Path, change: Callable[[dict], object]) -> None:
    edit(saved, change)
    assert not all(report.is_ok for report in verify_plan(load_plan(saved)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(version=3), "version 3"),
        (lambda m: m.update(version=0), "version 0"),
        (lambda m: m.update(version=True), "version"),
        (lambda m: m.update(treadle="topology"), "plan"),
        (lambda m: m.update(extra=1), "'extra' is unknown"),
        (lambda m: m.pop("algbw"), "'algbw' is missing"),
        (lambda m: m.update(algbw=8), "fraction"),
        (lambda m: m.update(algbw="8/0"), "fraction"),
        (lambda m: m.update(algbw="-8/1"), "fraction"),
        (lambda m: m.update(algbw="0/1"), "positive"),
        (lambda m: m.update(algbw="٨/1"), "fraction"),
        (lambda m: m.update(algbw="8" * 5000 + "/1"), "fraction"),
        (lambda m: m.update(witness=None), "without a certificate"),
        (lambda m: m.update(witness={"kind": "magic"}), "kind 'magic'"),
        (lambda m: m.update(witness=[1]), "object"),
        (lambda m: m["witness"].update(nodes=[-1]), "indices"),
        (lambda m: m.update(topology_sha256="0" * 64), "topology_sha256"),
        (lambda m: m["collective"].update(kind="scatter"), "scatter"),
        (lambda m: m["collective"].update(kind="reduce-scatter"), "entries"),
        (lambda m: m["collective"].update(ranks=[0, 1, 2]), "4 values, expected at most 3"),
        (lambda m: m["collective"].update(ranks=[0, 1, 2, 9]), "not a compute node"),
        (lambda m: m["collective"].update(ranks=[0, 1, 2, 1.5]), "integer"),
        (lambda m: m["collective"].update(root=0), "root"),
        (lambda m: m["entries"][0].update(broadcast=1), "does not exist"),
        (lambda m: m["entries"][0].update(broadcast="0"), "integer"),
        (lambda m: m["entries"][0].update(reduce=0), "two directions"),
        (lambda m: m["entries"][0].update(min_bytes=-1), "expected 0 <= min <= max"),
        (lambda m: m["entries"][1].update(min_bytes=5), "overlap"),
        (lambda m: m.update(entries=[]), "forests"),
        (lambda m: m.update(entries=[3, 4]), "expected objects"),
        (lambda m: m.update(forests=2), "is missing"),
        (lambda m: m.update(forests=10**9), "expected 0 to"),
        (lambda m: m.update(provenance={"a": [1]}), "provenance"),
        (lambda m: m.update(provenance={"model": "two\nlines"}), "one line without control"),
        (lambda m: m.update(algorithm="\x1b[31mred"), "one line without control"),
        (lambda m: m.update(algbw="9" * 999 + "/1"), "which no fabric has"),
    ],
)
def test_malformed_manifest(saved: Path, change: Callable[[dict], object], message: str) -> None:
    edit(saved, change)
    refuse(saved, message)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100000, b'{"treadle": NaN}', b'{"version": 1, "version": 1}'],
)
@pytest.mark.parametrize("member", ["manifest.json", "topology.json"])
def test_malformed_json(saved: Path, member: str, text: bytes) -> None:
    write(saved, {**members(saved), member: text})
    refuse(saved)


def test_a_padded_manifest_is_refused_unread(saved: Path) -> None:
    content = members(saved)
    write(saved, {**content, "manifest.json": content["manifest.json"] + b" " * 2**16})
    load_plan(saved)
    write(saved, {**content, "manifest.json": content["manifest.json"] + b" " * 2**26}, zipfile.ZIP_DEFLATED)
    refuse(saved, f"manifest.json: .* bytes, expected at most {2**26}")


def test_members_are_just_those_expected(saved: Path) -> None:
    content = members(saved)
    for name in content:
        write(saved, {key: data for key, data in content.items() if key != name})
        refuse(saved, "is missing")
    write(saved, {**content, "../evil.npy": b""})
    refuse(saved, "does not belong")
    write(saved, content)
    with zipfile.ZipFile(saved, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("manifest.json", content["manifest.json"])
    refuse(saved, "twice")
    write(saved, content, zipfile.ZIP_BZIP2)
    refuse(saved, "unknown way")


def npy(values: np.ndarray, **options: object) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, values, **options)
    return buffer.getvalue()


def header(shape: str, descr: str = "<i8") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("parent", npy(np.array([[None]], dtype=object), allow_pickle=True)),
        ("parent", npy(np.zeros((4, 4)))),
        ("parent", npy(np.zeros((4, 4), dtype=np.uint8))),
        ("parent", npy(np.zeros((4, 4), dtype=">i4"))),
        ("parent", npy(np.asfortranarray(np.arange(16).reshape(4, 4)))),
        ("parent", npy(np.zeros((3, 4), dtype=np.int8))),
        ("parent", npy(np.zeros(16, dtype=np.int8))),
        ("parent", npy(np.full((4, 4), 7, dtype=np.int8))),
        ("parent", npy(np.full((4, 4), 2**40))),
        ("parent", npy(np.full((4, 4), -(2**63)))),
        ("parent", npy(np.zeros((4, 4), dtype=np.int8), version=(2, 0))),
        ("entry_count", npy(np.full(16, -1, dtype=np.int8))),
        ("entry_count", npy(np.full(16, 2**62))),
        ("entry_units", npy(np.zeros(12, dtype=np.int8))),
        ("entry_units", npy(np.zeros(11, dtype=np.int8))),
        ("tree_root", npy(np.array([3, 2, 1, 0], dtype=np.int8))),
        ("tree_root", header("(999999999999999999,)")),
        ("tree_root", header("(999999999999999999, 999999999999999999)")),
        ("tree_root", header("()")),
        ("tree_root", header("(4,)", "|O")),
        ("tree_root", header("(__import__('os'),)")),
        ("tree_root", b"\x93NUMPY\x01\x00\xff\xff"),
        ("tree_root", b""),
    ],
)
def test_malformed_arrays(saved: Path, key: str, data: bytes) -> None:
    write(saved, {**members(saved), f"forests/0/{key}.npy": data})
    refuse(saved)


def test_bombs_are_refused_before_they_unfold(saved: Path) -> None:
    zeros = npy(np.zeros(4 * 10**7, dtype=np.int8))
    write(saved, {**members(saved), "forests/0/entry_units.npy": zeros})
    with pytest.raises(MemoryLimitError, match=r"4\.\d+GB of memory or more .*--max-memory 5GB"):
        load_plan(saved)
    # a member that unfolds to more than its directory entry says
    data = bytearray(saved.read_bytes())
    length = len(zeros).to_bytes(4, "little")
    small = len(header("(12,)", "|i1")) + 12
    while (at := data.find(length)) >= 0:
        data[at : at + 4] = small.to_bytes(4, "little")
    saved.write_bytes(data)
    refuse(saved)


def test_unreadable_places(tmp_path: Path) -> None:
    refuse(tmp_path / "absent", "No such file")
    refuse(tmp_path, "folder")
    refuse(Path("/dev/zero"), "device")
    (tmp_path / "text").write_text("no zip at all")
    refuse(tmp_path / "text", "no readable plan")
    with pytest.raises(FormatError, match="cannot be written"):
        save_plan(tmp_path / "absent" / "plan", ring_plan())
    assert {path.name for path in tmp_path.iterdir()} == {"text"}


def test_malformed_plans() -> None:
    plan = ring_plan()
    reduce_scatter = samples.star_reduce_scatter()[2]
    for changes in (
        {"entries": ()},
        {"entries": (PlanEntry(0, None, reduce_scatter),)},
        {"entries": plan.entries[::-1]},
        {"algbw": Fraction(0)},
        {"algbw": 8.0},
        {"certificate": None},
        {"provenance": {"seconds": float("nan")}},
        {"topology": samples.ring(5)},
        {"collective": replace(plan.collective, kind=CollectiveKind.ALLREDUCE)},
    ):
        with pytest.raises(ScheduleError):
            replace(plan, **changes)
    with pytest.raises(ScheduleError, match="expected 0 <= min <= max"):
        PlanEntry(5, 4, plan.entries[0].schedule)


def test_schedule_for_a_size() -> None:
    plan = ring_plan()
    assert plan.schedule_for(1023) is plan.entries[0].schedule
    bounded = replace(plan, entries=plan.entries[:1])
    with pytest.raises(ScheduleError, match="no schedule for 1024 bytes"):
        bounded.schedule_for(1024)


def test_plan_against_another_fabric() -> None:
    plan = ring_plan()
    slower = samples.ring(bandwidth=5)
    report = verify_plan(plan, topology=slower)[-1]
    assert not report.is_ok
    assert report.algbw == Fraction(20, 3)


def test_manifests_are_indented_as_the_standard_encoder_does() -> None:
    values = [1, -(2**70), True, None, 0.5, "ä\n", [], {}, [1, 2], [1, True], [[1], {"a": (3, 4)}], (5,)]
    nested = {"rows": values, "empty": {"list": [], "object": {}}, "é": {"deep": [{"ranks": list(range(5))}]}}
    for value in (*values, nested):
        assert indented(value) == json.dumps(value, indent=1, allow_nan=False)
    with pytest.raises(ValueError, match="not JSON compliant"):
        indented([float("nan")])


def set_plan() -> Plan:
    """Two schedules of a set, with what is known of their making."""
    plan = ring_plan()
    small, large = plan.entries
    cuts = (Pipelining(0, 1, "ll"), Pipelining(64, 4, "simple"))
    made = (
        replace(small, algorithm="mixed-radix", options="factors=2,2"),
        replace(large, algorithm="ring", pipelining=cuts),
    )
    return replace(plan, entries=made)


def test_what_is_known_of_an_entrys_making_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "set.plan"
    save_plan(path, set_plan())
    loaded = load_plan(path)
    assert loaded == set_plan()
    assert [entry.title for entry in loaded.entries] == ["mixed-radix factors=2,2", "ring"]
    large = loaded.entries[1]
    assert [large.pipelining_at(size) for size in (63, 64, 2**30)] == [
        large.pipelining[0],
        *[large.pipelining[1]] * 2,
    ]
    assert loaded.entries[0].pipelining_at(2**30) is None
    manifest = json.loads(members(path)["manifest.json"])
    assert "options" not in manifest["entries"][1], "what is not known is left out"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"algorithm": 3}, "entries: algorithm: expected a string"),
        ({"options": "a\nb"}, "expected one line"),
        ({"pipelining": [[0, 1]]}, "expected bytes, slices and protocol"),
        ({"pipelining": [[0, 0, ""]]}, "0 slices from 0 bytes on"),
        ({"pipelining": [[0, 1, "s" * 41]]}, "expected a line of at most 40"),
        ({"pipelining": [[0, 1, ""], [0, 2, ""]]}, "have to rise"),
        ({"pipelining": [[2000, 1, ""]]}, "have to rise from 1024 bytes on"),
        ({"pipelining": [[i, 1, ""] for i in range(1001)]}, "pipelining: 1001, expected 0 to 1000"),
    ],
)
def test_malformed_entries_of_sets_are_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = tmp_path / "set.plan"
    save_plan(path, set_plan())
    content = members(path)
    manifest = json.loads(content["manifest.json"])
    manifest["entries"][1].update(change)
    write(path, content | {"manifest.json": json.dumps(manifest).encode()})
    with pytest.raises(FormatError, match=said):
        load_plan(path)


def test_fabrics_of_many_links_are_stored_by_families(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.topologies.files._MANY_LINKS", 10)
    plan = solve("dgx_h100:2", "allgather").plan
    save_plan(tmp_path / "plan", plan)
    with zipfile.ZipFile(tmp_path / "plan") as archive:
        text = archive.read("topology.json").decode()
    assert json.loads(text)["version"] == 2
    assert len(text) < 700
    loaded = load_plan(tmp_path / "plan")
    assert loaded == plan
    assert loaded.topology.name == plan.topology.name
    # one of a fabric that has no families is written out, and the hash of its arrays is held too
    damaged = solve("dgx_h100:2", "allgather", without="box0.gpu1").plan
    save_plan(tmp_path / "damaged", damaged)
    assert load_plan(tmp_path / "damaged") == damaged
