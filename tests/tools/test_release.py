"""The parts of a release that need no compiler: CPythons, one version, checksums, the bill of materials."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.release import build, checks, sbom
from tools.release.interpreters import MINORS, Interpreter, asked, builders, newest_of_each, serves


def test_this_interpreter_is_found_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    found = asked(sys.executable)
    assert found is not None
    assert (3, found.minor, found.patch) == sys.version_info[:3]
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2; exit 127\n")
    shim.chmod(0o755)
    assert asked(str(shim)) is None
    assert asked(str(tmp_path / "python3.13")) is None
    assert newest_of_each([None, found]) == {found.minor: found}


def test_wheels_are_built_by_the_oldest_of_each_kind() -> None:
    eleven, twelve, thirteen = (Interpreter(minor, 0, f"/{minor}") for minor in (11, 12, 13))
    assert builders({11: eleven, 13: thirteen, 12: twelve}) == (eleven, twelve)
    with pytest.raises(ValueError, match=r"needs a CPython from 3\.12 on, .* found 3\.11\.0"):
        builders({11: eleven})
    with pytest.raises(ValueError, match=r"needs CPython 3\.11"):
        builders({12: twelve})


def test_every_version_is_served_by_one_wheel() -> None:
    for minor in MINORS:
        assert sum(serves(tag, minor) for tag in ("cp311-cp311", "cp312-abi3")) == 1


def test_the_version_stands_in_one_place(repository: Path, tmp_path: Path) -> None:
    version = checks.named_version(repository)
    assert "version" not in (repository / "CITATION.cff").read_text(encoding="utf-8").replace(
        "cff-version", ""
    )
    (tmp_path / "pyproject.toml").write_text((repository / "pyproject.toml").read_text(encoding="utf-8"))
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version}1\n\n## {version}\n")
    with pytest.raises(ValueError, match=re.escape(f"begins with '{version}1'")):
        checks.named_version(tmp_path)


def test_checksums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b.whl", "a.tar.gz")]
    for path in files:
        path.write_bytes(path.name.encode())
    text = checks.checksums(files)
    assert [line.split("  ")[1] for line in text.splitlines()] == ["a.tar.gz", "b.whl"]
    (tmp_path / checks.CHECKSUMS).write_text(text)
    subprocess.run(["sha256sum", "--check", "--strict", checks.CHECKSUMS], cwd=tmp_path, check=True)
    assert hashlib.sha256(b"b.whl").hexdigest() in text


def test_one_other_byte_is_told(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "a").write_bytes(b"same")
        (folder / "b").write_bytes(folder.name.encode())
    (second / "c").write_bytes(b"")
    assert checks.differences(first, second) == ["b", "c"]
    assert checks.differences(first, first) == []


def test_the_bill_says_what_pyproject_asks_for(repository: Path, tmp_path: Path) -> None:
    document = checks.project(repository)
    wheel = tmp_path / "treadle-1-cp312-abi3-any.whl"
    wheel.write_bytes(b"wheel")
    made = sbom.Build("c0ffee", 1_700_000_000, "g++ 12", {"nanobind": "3.1.0"})
    text = sbom.bill(document, [wheel], made)
    assert text == sbom.bill(document, [wheel], made)
    bill = json.loads(text)
    assert bill["metadata"]["timestamp"].startswith("2023-11-14T22:13:20")
    assert bill["metadata"]["component"]["components"][0]["hashes"][0]["content"] == checks.digest(wheel)
    project = document["project"]
    required = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    told = {canonicalize_name(one["name"]): one["scope"] for one in bill["components"]}
    assert {name for name, scope in told.items() if scope == "required"} == required | {
        "nanobind",
        "robin-map",
    }
    extras = [Requirement(line).name for lines in project["optional-dependencies"].values() for line in lines]
    assert set(map(canonicalize_name, extras)) <= set(told)
    wheel.write_bytes(b"another")
    assert json.loads(sbom.bill(document, [wheel], made))["serialNumber"] != bill["serialNumber"]


def test_what_is_compiled_in_has_its_licence_in_the_wheel_and_its_version_fixed(repository: Path) -> None:
    for name, _ in sbom.COMPILED_IN:
        assert (
            "copyright notice"
            in (repository / "licenses" / f"{name}.txt").read_text(encoding="utf-8").lower()
        )
    fixed = build.CONSTRAINTS.read_text(encoding="utf-8")
    for line in checks.project(repository)["build-system"]["requires"]:
        assert re.search(rf"^{Requirement(line).name}==", fixed, re.MULTILINE)
