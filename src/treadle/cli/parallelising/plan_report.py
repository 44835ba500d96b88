"""How single plans are told: a tensor through the step, and what differs between two plans."""

from __future__ import annotations

from treadle.cli.output import Output
from treadle.cli.training.step_report import gigabytes
from treadle.planning import ExplainedTensor, PlanChanges
from treadle.units import format_seconds, format_size

_MOST_CHANGES = 40
"""Rows that people see; JSON has all."""


def print_story(output: Output, story: ExplainedTensor) -> None:
    """States of a tensor in the order of the step, then what else could have been chosen."""
    told = story.story
    output.line()
    output.line(
        f"tensor      {told.part}/{told.name}: {told.kind} of letters {told.letters}, "
        f"{format_size(told.whole_bytes)}"
    )
    output.line()
    rows = [
        (
            leg.when,
            leg.what,
            leg.state,
            ", ".join(f"{step.kind} along {','.join(step.axes)}" for step in leg.steps),
            format_size(leg.local_bytes),
            format_seconds(leg.seconds) if leg.steps else "",
        )
        for leg in told.legs
    ]
    output.table(
        ["when", "what", "state", "moved by", "at a rank", "time"], rows, left=4, least=("at a rank",)
    )
    if story.alternatives:
        output.line()
        instead = [
            (
                one.what,
                one.state,
                f"{one.more:+.1%}",
                format_seconds(one.seconds),
                gigabytes(one.memory_bytes),
            )
            for one in story.alternatives
        ]
        output.table(["instead", "state", "step", "", "memory"], instead, left=2)
        output.line("(the rest of the plan adapts, one choice at a time)")


def story_values(story: ExplainedTensor) -> dict[str, object]:
    """What JSON says."""
    told = story.story
    return {
        "part": told.part,
        "tensor": told.name,
        "letters": told.letters,
        "bytes": told.whole_bytes,
        "states": [
            {
                "when": leg.when,
                "what": leg.what,
                "state": leg.state,
                "local_bytes": leg.local_bytes,
                "time_s": leg.seconds,
                "collectives": [
                    {"kind": str(step.kind), "axes": list(step.axes), "size_bytes": step.size_bytes}
                    for step in leg.steps
                ],
            }
            for leg in told.legs
        ],
        "alternatives": [
            {"what": one.what, "state": one.state, "step_s": one.seconds, "memory_bytes": one.memory_bytes}
            for one in story.alternatives
        ],
    }


def print_changes(output: Output, found: PlanChanges) -> None:
    """Both plans' figures, then what differs."""
    output.line()
    rows = [
        (
            name,
            *map(format_seconds, (plan.seconds, plan.compute_s, plan.exposed_s, plan.communication_s)),
            gigabytes(plan.memory_bytes),
        )
        for name, plan in (("this plan", found.ours), ("the other", found.theirs))
    ]
    output.table(["", "step", "compute", "exposed", "communication", "memory"], rows)
    output.line()
    if not found.changes:
        output.line("difference  none")
        return
    shown = [(one.part, one.what, one.ours, one.theirs) for one in found.changes[:_MOST_CHANGES]]
    output.table(["part", "what", "this plan", "the other"], shown, left=4)
    if len(found.changes) > _MOST_CHANGES:
        output.line(f"({len(found.changes) - _MOST_CHANGES} differences more: --json)")


def changes_values(found: PlanChanges) -> dict[str, object]:
    """What JSON says."""
    return {
        "step_s": found.ours.seconds,
        "other_step_s": found.theirs.seconds,
        "memory_bytes": found.ours.memory_bytes,
        "other_memory_bytes": found.theirs.memory_bytes,
        "changes": [
            {"part": one.part, "what": one.what, "this": one.ours, "other": one.theirs}
            for one in found.changes
        ],
    }
