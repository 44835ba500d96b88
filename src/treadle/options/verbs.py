"""All commands: what each does, and where its options and its function are."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from treadle.options.rows import Options


class Verb(NamedTuple):
    """A command: its summary, the folder of its options and its function, and its group in help."""

    summary: str
    package: str
    group: str


_TASKS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "Schedules": {
        "solving": {
            "solve": "Compute the best schedule and write it as a plan.",
            "bound": "Print the optimum and its bottleneck, without a schedule.",
            "compare": "Compare schedulers on a fabric.",
            "pareto": "Trade throughput for tree height, number of trees or steps.",
            "algorithms": "List schedulers with their requirements and options.",
        },
    },
    "Plans": {
        "checking": {"verify": "Check a plan or a runtime file independently."},
        "drawing": {"report": "Write an HTML report about a plan, or a drawing."},
    },
    "Running": {
        "checking": {"lower": "Export a plan for MSCCL, MSCCL++, NCCL, Chakra and others."},
        "measuring": {
            "run": "Run a plan on real data and check every element.",
            "simulate": "Predict the time of a plan, message by message.",
            "testbed": "Run plans on an emulated network (Linux, root).",
        },
    },
    "Your cluster": {
        "designing": {
            "topology import": "Read a fabric from a file of another tool.",
            "topology list": "List the catalogue of fabrics with arguments and defaults.",
            "topology show": "Show a fabric: nodes, links, balance, distances and symmetries.",
            "topology export": "Write a fabric as JSON, GraphML or an edge list.",
        },
        "measuring": {
            "diagnose": "Explain a low bandwidth in an nccl-tests log.",
            "calibrate": "Fit a cost model to measured times.",
        },
        "solving": {"repair": "Compute a new plan without failed links and nodes."},
        "building": {"resilience": "Show how random cable failures reduce the optimum."},
    },
    "Fabric design": {
        "designing": {"design": "Find the best direct-connect topologies for N nodes."},
        "building": {
            "cabling list": "Write the cables of a fabric: ports, racks, lengths and bundles.",
            "cabling check": "Find missing, swapped and wrong cables.",
        },
    },
    "Training": {
        "training": {"train": "Simulate a training or serving step."},
        "parallelising": {
            "parallelize": "Find the best sharding, recomputation and pipeline of a model.",
            "capture": "Capture a PyTorch module as an operator graph.",
            "execute": "Run one step of a parallelization plan and check its results.",
        },
    },
    "Other": {
        "measuring": {"reproduce": "Recompute a table or figure of the papers."},
        "settings": {
            "config": "Show settings and their origin.",
            "config schema": "Print the JSON Schema of a command's --json output.",
        },
    },
}
VERBS: Mapping[str, Verb] = {
    name: Verb(summary, package, group)
    for group, packages in _TASKS.items()
    for package, summaries in packages.items()
    for name, summary in summaries.items()
}
GROUPS = {
    "topology": "List, show, import and export fabrics.",
    "cabling": "Write the cabling list of a fabric; check installed cables.",
}
"""Commands that are groups of others."""


class Alias(NamedTuple):
    """A former command: the verb that it is now, and what stands for its name."""

    verb: str
    words: Mapping[str, Any]
    first: str = ""
    """The option that its first argument is."""


ALIASES: Mapping[str, Alias] = {
    "harden": Alias("repair", {"every_failure": True}),
    "retune": Alias("solve", {}, "retune"),
    "routes": Alias("solve", {"routes": True, "collective": "alltoall"}),
    "draw": Alias("report", {}),
    "schema": Alias("config schema", {}),
}
"""Former commands, which help does not list."""


def table(verb: str) -> type[Options]:
    """The options of a command."""
    module = import_module(f"treadle.options.{VERBS[verb].package}")
    found: type[Options] = getattr(module, verb.title().replace(" ", ""))
    return found
