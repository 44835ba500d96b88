"""The Python reference: what `treadle` and `treadle.planning` export, by subject, from docstrings."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict

import treadle
from rest import heading, plain, table
from treadle import planning

SUBJECTS = {
    "solving": (
        "Solving",
        (
            *("api.solve", "api.bound", "api.compare", "api.routes", "schedulers", "inputs", "synthesis"),
            "schedules",
        ),
    ),
    "fabrics": (
        "Fabrics",
        ("topologies", "inputs.importing", "inputs.fabrics_and_plans", "api.design", "finder.designing"),
    ),
    "building": ("Building fabrics", ("finder.building",)),
    "checking": (
        "Verifying and repairing",
        ("api.verify", "api.repair", "api.harden", "inputs.verification", "schedulers.repairing"),
    ),
    "sizes": ("Best plans by size", ("api.solve_sizes", "api.retune", "schedulers.sizes")),
    "together": (
        "Groups and jobs at once",
        ("api.jobs", "api.group_costs", "api.group_prices", "api.price", "schedulers.jobs"),
    ),
    "measuring": (
        "Running, simulating, diagnosing",
        (
            *("api.run", "api.simulate", "api.diagnose", "program", "simulation", "diagnosis", "machines"),
            *("testbed", "traces", "context", "runtime"),
        ),
    ),
    "writing": ("Texts for runtimes", ("api.lower", "lowering", "inputs.runtime_files", "formats")),
    "pictures": ("Pictures and pages", ("api.draw", "api.report", "drawing", "viz")),
    "training": ("Steps of training", ("api.train", "api.serve", "training")),
    "parallelising": (
        "Sharding models",
        ("api.parallelize", "api.capture", "api.execute_plan", "inputs.meshes", "parallelism"),
    ),
    "keywords": ("Keyword arguments", ("options",)),
}
"""Pages: title, and rooms of the package whose public names stand there; what fits nowhere fails."""


def public_names() -> dict[str, object]:
    """Every public name with its value; what `treadle` has is under that name alone."""
    found = {f"treadle.{name}": getattr(treadle, name) for name in treadle.__all__ if name != "__version__"}
    for name in planning.__all__:
        found.setdefault(
            f"treadle.{name}" if name in treadle.__all__ else f"treadle.planning.{name}",
            getattr(planning, name),
        )
    return found


def _home(name: str, value: object) -> str:
    """The subject whose rooms the value comes from."""
    module = getattr(value, "__module__", "") if callable(value) else _CONSTANTS[name.rsplit(".", 1)[1]]
    module = module.removeprefix("treadle.")
    rooms = [
        (room, key)
        for key, (_, rooms) in SUBJECTS.items()
        for room in rooms
        if f"{module}.".startswith(f"{room}.")
    ]
    if not rooms:
        raise ValueError(f"{name} of {module}: no page of the reference has it; see SUBJECTS")
    return max(rooms, key=lambda item: len(item[0]))[1]


_CONSTANTS = {
    "DEFAULT_BATCHES": "training",
    "DEFAULT_GAP": "parallelism",
    "DEFAULT_TIME_LIMIT_S": "schedulers",
    "SHOWN_SIZE": "drawing",
    "TREES_PER_ROOT": "schedulers",
}
"""Rooms of values that do not know where they come from."""


def api_pages() -> dict[str, str]:
    """Texts by name; ``index`` lists all."""
    by_subject = defaultdict(list)
    for name, value in public_names().items():
        by_subject[_home(name, value)].append((name, value))
    pages = {}
    for subject, (title, _) in SUBJECTS.items():
        # functions first, those of `treadle` before the others
        found = sorted(
            by_subject[subject],
            key=lambda item: (inspect.isclass(item[1]), item[0].count("."), item[0].lower()),
        )
        parts = [heading(title)]
        parts.append(
            ".. autosummary::\n\n" + "".join(f"   ~{name}\n" for name, value in found if callable(value))
        )
        for name, value in found:
            if inspect.isclass(value):
                parts.append(f".. autoclass:: {name}\n   :members:\n   :exclude-members: __init__\n")
            elif callable(value):
                parts.append(f".. autofunction:: {name}\n")
            else:
                parts.append(f".. py:data:: {name}\n   :value: {value!r}\n")
        pages[subject] = "\n".join(parts)
    rows = []
    for name in treadle.__all__:
        if name != "__version__":
            value = getattr(treadle, name)
            role = "class" if inspect.isclass(value) else "func"
            first = re.split(r"(?<=[.:])\s", inspect.getdoc(value) or "", maxsplit=1)[0]
            rows.append((f":py:{role}:`~treadle.{name}`", plain(first)))
    pages["index"] = "\n".join(
        [
            heading("Python"),
            "``import treadle`` has what most programs need:\n",
            table(("Name", "What it is"), rows, "25 75"),
            "``treadle.planning`` has these and all that they take and return, by subject:\n",
            ".. toctree::\n   :maxdepth: 1\n\n" + "".join(f"   {name}\n" for name in SUBJECTS),
        ]
    )
    return pages
