"""Route files against plans: what a card would be told wrongly is seen, in each of the three formats."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import pytest

from treadle import planning
from treadle.errors import FormatError
from treadle.formats.routes import interpreter as judges
from treadle.formats.verdict import Check, Planned, Terms, Verdict
from treadle.planning import RouteFormat
from treadle.schedules.plan import Plan

JUDGES: dict[str, Callable[..., Verdict]] = {
    "json": judges.interpret_json,
    "csv": judges.interpret_csv,
    "xml": judges.interpret_xml,
}
NO_PLAN = Terms()


@cache
def plan() -> Plan:
    return planning.solve("torus(3, 3)", "alltoall", algorithm="routes").plan


def text(form: str) -> str:
    return planning.format_routes(planning.routes_of(plan()), RouteFormat(form))


def judged(form: str, content: str) -> Verdict:
    made = plan()
    planned = Planned(made.topology, made.collective, made.entries[-1].schedule, tuple)
    return JUDGES[form]([content.encode()], Terms(planned=planned))


@pytest.mark.parametrize("form", JUDGES)
def test_what_is_written_is_the_plans(form: str) -> None:
    found = judged(form, text(form))
    assert (found.check, found.violations, found.n_ranks) == (Check.COMPARED, (), 9)
    assert dict(found.counts)["route"] == planning.routes_of(plan()).schedule.n_paths
    assert JUDGES[form]([text(form).encode()], NO_PLAN).check is Check.PARSED


def test_comments_in_xml_change_nothing() -> None:
    content = text("xml")
    assert judged("xml", re.sub(r"(<(?:route|hop)\b)", r"<!-- a note -->\1", content)).violations == ()


DAMAGES = [
    ("json", '"source": 1,', '"source": 2,', "differs from the plan's"),
    ("json", '"layer": 0,', '"layer": 1,', "differs from the plan's"),
    ("json", '"first_chunk": 0,', '"first_chunk": 1,', "from chunk 0"),
    ("json", '"ports": [0]', '"ports": [1]', "are not those of its links"),
    ("json", '"n_layers": 1', '"n_layers": 2', "2 layers, the plan has 1"),
    ("json", '"n0_1"', '"n9_9"', "the ranks are not those of the plan"),
    ("csv", ",n0_1,", ",n2_2,", "names nodes that are not on its way"),
    ("csv", "0,1,n0_0,n0_1,0,0,0,", "0,1,n0_0,n0_1,1,0,0,", "expected route 0 of its pair"),
    ("xml", '<hop node="n0_0" port="0"', '<hop node="n0_0" port="3"', "are not those of its links"),
    ("xml", '<hop node="n0_0"', '<hop node="n0_1"', "names nodes that are not on its way"),
    ("xml", 'chunks="1"', 'chunks="2"', "2 chunks, the plan has 1"),
]


@pytest.mark.parametrize(("form", "old", "new", "words"), DAMAGES)
def test_damages_are_seen(form: str, old: str, new: str, words: str) -> None:
    content = text(form)
    assert old in content, content[:900]
    found = judged(form, content.replace(old, new, 1))
    assert any(words in violation for violation in found.violations), found.violations


@pytest.mark.parametrize("form", JUDGES)
def test_routes_left_out_or_said_twice(form: str) -> None:
    lines = text(form).splitlines(keepends=True)
    place = {"json": 2, "csv": 3}.get(form)
    if place is None:
        start = next(i for i, line in enumerate(lines) if "<pair" in line)
        end = next(i for i, line in enumerate(lines) if "</pair" in line)
        fewer, more = lines[:start] + lines[end + 1 :], lines[: end + 1] + lines[start:]
    else:
        fewer, more = lines[:place] + lines[place + 1 :], lines[:place] + lines[place - 1 :]
    for other in (fewer, more):
        assert judged(form, "".join(other)).violations


MALFORMED = [
    ("json", "{}", "is missing"),
    ("json", "[", "JSON"),
    ("csv", "a,b\n", "expected the heading"),
    ("csv", "HEAD1,2\n", "2 cells, expected 14"),
    ("csv", 'HEAD"a\n', "no CSV"),
    ("csv", "HEAD0,x,a,b,0,0,0,1,1,0,0,,49152,1\n", "'x': expected an integer"),
    ("csv", "HEAD0,1,a,b,0,0,0,1,2,0,0,,49152,1\n", "1 links, not 2"),
    ("csv", "HEAD0,1,a,b,0,0,0,1,1,0,0,,,1\n", "flow: '': expected an integer"),
    ("xml", "<a/>", "expected <routes>"),
    ("xml", "<routes", "not well-formed"),
    ("xml", '<!DOCTYPE x><routes version="1"/>', "a DTD"),
    (
        "xml",
        '<routes version="1" ranks="0" chunks="1" layers="1"><hop/></routes>',
        "<hop> found, expected <rank> or <pair>",
    ),
    (
        "xml",
        '<routes version="1" ranks="2" chunks="1" layers="1"/>',
        "ranks='2': expected an integer from 0 to 0",
    ),
    ("xml", '<routes version="1" ranks="0" chunks="1"/>', "lacks the attribute layers"),
]


@pytest.mark.parametrize(("form", "content", "words"), MALFORMED)
def test_malformed_files_are_refused_in_one_line(form: str, content: str, words: str) -> None:
    content = content.replace("HEAD", text("csv").partition("\n")[0] + "\n")
    with pytest.raises(FormatError, match=words.replace("<", "<")) as caught:
        JUDGES[form]([content.encode()], Terms(source="mine"))
    assert str(caught.value).startswith("mine:")
    assert "\n" not in str(caught.value)
    with pytest.raises(FormatError, match="byte 0 is not valid UTF-8"):
        JUDGES[form]([b"\xff"], NO_PLAN)
