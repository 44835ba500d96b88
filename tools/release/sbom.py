"""The bill of materials of a release in CycloneDX: what is in it, what built it, what it asks for.

The same files of the same commit give the same bytes: its number is made from their checksums, its time is
the commit's.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.model.lifecycle import LifecyclePhase, PredefinedLifecycle
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement

from .checks import digest

_SCHEMA = SchemaVersion.V1_6
COMPILED_IN = (("nanobind", "BSD-3-Clause"), ("robin-map", "MIT"))
"""What the compiled core has in itself beside our code; nanobind brings robin-map."""


@dataclass(frozen=True)
class Build:
    """What a release was made of: its commit (seconds since 1970), the compiler, versions of the tools."""

    commit: str
    commit_time: int
    compiler: str
    tools: Mapping[str, str]


def bill(document: dict[str, Any], files: Iterable[Path], build: Build) -> str:
    """The text of the bill.

    Parameters
    ----------
    document : dict
        pyproject.toml.
    files : iterable of Path
        The sdist and the wheels.
    build : Build

    Returns
    -------
    str
        JSON of CycloneDX 1.6.

    Notes
    -----
    What is asked for has the ranges that pyproject.toml declares, and no versions: these are chosen when
    Treadle is installed.
    """
    project = document["project"]
    files = sorted(files, key=lambda path: path.name)
    number = uuid.uuid5(uuid.NAMESPACE_OID, build.commit + "".join(map(digest, files)))
    bom = Bom(serial_number=number)
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(build.commit_time, datetime.UTC)
    bom.metadata.lifecycles = [PredefinedLifecycle(LifecyclePhase.BUILD)]
    bom.metadata.component = treadle = Component(
        type=ComponentType.APPLICATION,
        name=project["name"],
        version=project["version"],
        description=project["description"],
        licenses=[DisjunctiveLicense(id=project["license"])],
        purl=PackageURL("pypi", name=project["name"], version=project["version"]),
        bom_ref=project["name"],
        components=[_file(path) for path in files],
    )
    bom.metadata.properties = [
        Property(name="treadle:commit", value=build.commit),
        Property(name="treadle:compiler", value=build.compiler),
    ]
    bom.metadata.tools.components = [
        _package(name, version=version) for name, version in sorted(build.tools.items())
    ]
    inside = [_compiled_in(name, licence, build.tools) for name, licence in COMPILED_IN]
    asked = list(_asked_for(project))
    for component in [*inside, *asked]:
        bom.components.add(component)
    bom.register_dependency(treadle, [*inside, *asked])
    return make_outputter(bom, OutputFormat.JSON, _SCHEMA).output_as_string(indent=2) + "\n"


def faults(text: str) -> str:
    """What the schema of CycloneDX has against a bill; empty if nothing."""
    from cyclonedx.validation.json import JsonStrictValidator

    return str(JsonStrictValidator(_SCHEMA).validate_str(text) or "")


def _file(path: Path) -> Component:
    return Component(
        type=ComponentType.FILE,
        name=path.name,
        bom_ref=path.name,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest(path))],
    )


def _package(name: str, **given: Any) -> Component:
    """A package by its name."""
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        bom_ref=given.pop("bom_ref", f"tool:{name}"),
        purl=PackageURL("pypi", name=name, version=given.get("version")),
        **given,
    )


def _compiled_in(name: str, licence: str, tools: Mapping[str, str]) -> Component:
    version = tools.get(name)
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        bom_ref=f"compiled-in:{name}",
        scope=ComponentScope.REQUIRED,
        licenses=[DisjunctiveLicense(id=licence)],
        purl=PackageURL("pypi", name=name, version=version) if version else None,
        properties=[Property(name="treadle:part", value="compiled into the wheels")],
    )


def _asked_for(project: dict[str, Any]) -> Iterable[Component]:
    """Every requirement of the package and its extras, once for each of these."""
    for extra, lines in [("", project["dependencies"]), *project["optional-dependencies"].items()]:
        for line in lines:
            requirement = Requirement(line)
            said = [Property(name="treadle:range", value=str(requirement.specifier))]
            if extra:
                said.append(Property(name="treadle:extra", value=extra))
            yield _package(
                requirement.name,
                bom_ref=f"asked-for:{requirement.name}" + f"[{extra}]" * bool(extra),
                scope=ComponentScope.OPTIONAL if extra else ComponentScope.REQUIRED,
                properties=said,
            )
