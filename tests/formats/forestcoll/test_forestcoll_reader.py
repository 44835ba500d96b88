"""ForestColl's XML as it is read, at its limits, and trees that go wrong."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.formats.forestcoll import interpreter as judge_module
from treadle.formats.forestcoll import reader
from treadle.formats.forestcoll.interpreter import interpret
from treadle.formats.forestcoll.reader import (
    ForestcollFile,
    ForestcollSend,
    ForestcollTree,
    parse_forestcoll_xml,
)
from treadle.formats.forestcoll.traffic import trees
from treadle.formats.verdict import Check, Terms
from treadle.program.foreign.traffic import NamedTree

TEXT = """\
<?xml version="1.0"?>
<Algo nchunkspernode="7">
  <!-- of gpu2 -->
  <tree root="gpu2" index="0" nchunks="3" height="2">
    <send src="gpu2" dst="gpu10" path="gpu2, sw (1, 2) ,gpu10"/>
    <send src="gpu10" dst=" gpu1 " path="gpu10,gpu1"/>
  </tree>
  <tree root="gpu2" index="1" nchunks="4" height="1">
    <send src="gpu2" dst="gpu1" path="gpu2,['a,b'],&quot;c,d&quot;,'e,f',gpu1"/>
    <send src="gpu2" dst="gpu10" path="gpu2,gpu10"/>
  </tree>
</Algo>
"""


def parsed(old: str = "", new: str = "") -> ForestcollFile:
    """The text with its first such words replaced."""
    assert old in TEXT
    return parse_forestcoll_xml(TEXT.replace(old, new, 1), "file")


def test_every_part_is_read() -> None:
    between = ("['a,b']", '"c,d"', "'e,f'")
    file = parsed()
    assert file == ForestcollFile(
        7,
        (
            ForestcollTree(
                *("gpu2", 0, 3, 2),
                (
                    ForestcollSend("gpu2", "gpu10", ("sw (1, 2)",)),
                    ForestcollSend("gpu10", "gpu1", ()),
                ),
                4,
            ),
            ForestcollTree(
                *("gpu2", 1, 4, 1),
                (ForestcollSend("gpu2", "gpu1", between), ForestcollSend("gpu2", "gpu10", ())),
                8,
            ),
        ),
    )
    assert file.nodes() == ("gpu1", "gpu2", "gpu10")


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (("b10", "b9", "a"), ("a", "b9", "b10")),
        (("9", "x", "10"), ("9", "10", "x")),
        (("a1b2", "a1b10", "a1"), ("a1", "a1b2", "a1b10")),
        ((f"a{10**18}", "a2", f"a{10**18 - 1}"), ("a2", f"a{10**18}", f"a{10**18 - 1}")),
    ],
)
def test_names_are_in_the_order_of_their_numbers(names: tuple[str, ...], order: tuple[str, ...]) -> None:
    """A number of more than 18 digits is one of 18 and another."""
    one, two, three = names
    tree = ForestcollTree(one, 0, 1, 1, (ForestcollSend(two, three, ("between",)),), 1)
    assert ForestcollFile(1, (tree,)).nodes() == order


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a,b", ("a", "b")),
        ("(a,b),c", ("(a,b)", "c")),
        ("a(b,c)d , e", ("a(b,c)d", "e")),
        ("[a,(b)],c", ("[a,(b)]", "c")),
        ("(a,b", ("(a", "b")),
        ("'a,b',\"c,'\"", ("'a,b'", '"c,\'"')),
        (",", ("", "")),
        ("a)b", ("a)b",)),
        ("", ("",)),
    ],
)
def test_commas_in_brackets_and_quotes_part_nothing(path: str, names: tuple[str, ...]) -> None:
    assert reader._split(path) == names


HOPS = "gpu2," + "x," * 62 + "gpu10"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('nchunkspernode="7"', f'nchunkspernode="{2**40}"'),
        ('nchunkspernode="7"', 'nchunkspernode=" 000000000000007 "'),
        ('index="0"', f'index="{2**40}"'),
        ('nchunks="3"', 'nchunks="1"'),
        ('height="2"', 'height="4096"'),
        ('height="2"', 'height="0"'),
        ('root="gpu2"', f'root="{"r" * 200}"'),
        ("gpu2, sw (1, 2) ,gpu10", HOPS),
        ("gpu2, sw (1, 2) ,gpu10", f"gpu2,{'y' * 12789},gpu10"),
        ("<!-- of gpu2 -->", "<?pi?>"),
    ],
)
def test_a_value_at_its_limit_is_read(old: str, new: str) -> None:
    assert len(parsed(old, new).trees) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<!-- of", "<![CDATA[a]]><!-- of", ":3: a DTD, entity or CDATA section is not accepted"),
        ("</Algo>", "</algo>", ":12: not well-formed ("),
        ('"7"', '"0"', ":2: <Algo> nchunkspernode='0': expected an integer from 1 to 1099511627776"),
        ('"7"', f'"{2**40 + 1}"', "nchunkspernode='1099511627777': expected an integer from 1 to"),
        ('"7"', '"0000000000000007"', "expected an integer from 1 to"),
        ('index="0"', 'index="-1"', ":4: <tree> index='-1': expected an integer from 0 to 1099511627776"),
        ('index="0"', f'index="{2**40 + 1}"', "index='1099511627777': expected an integer"),
        ('nchunks="3"', 'nchunks="0"', "nchunks='0': expected an integer from 1 to 1099511627776"),
        ('height="2"', 'height="4097"', "height='4097': expected an integer from 0 to 4096"),
        ('root="gpu2"', f'root="{"r" * 201}"', ":4: <tree> root: expected 1 to 200 characters"),
        ('src="gpu2"', 'src=""', ":5: <send> src: expected 1 to 200 characters"),
        ("gpu2, sw (1, 2) ,gpu10", "", ":5: <send> path: expected 1 to 12800 characters"),
        ("gpu2, sw (1, 2) ,gpu10", f"gpu2,{'y' * 12790},gpu10", "path: expected 1 to 12800 characters"),
        ("gpu2, sw (1, 2) ,gpu10", HOPS.replace("x,", "x,x,", 1), "expected nodes from gpu2 to gpu10"),
        ("gpu2, sw (1, 2) ,gpu10", "gpu2", "path='gpu2': expected nodes from gpu2 to gpu10"),
        ("gpu2, sw (1, 2) ,gpu10", "gpu10,gpu2", "path='gpu10,gpu2': expected nodes from gpu2 to gpu10"),
        ("gpu2, sw (1, 2) ,gpu10", "gpu2,gpu1", "path='gpu2,gpu1': expected nodes from gpu2 to gpu10"),
        ("<send src", "<sent src", ":5: <sent> expected <send>"),
    ],
)
def test_a_value_beyond_its_limit_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parsed(old, new)
    assert message in str(caught.value)
    assert str(caught.value).startswith("file:")


def test_limits_of_texts_and_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (reader.MAX_TEXT, reader.MAX_SENDS, reader.MAX_CHUNKS) == (268435456, 2000000, 1099511627776)
    monkeypatch.setattr(reader, "MAX_TEXT", len(TEXT))
    monkeypatch.setattr(reader, "MAX_SENDS", 4)
    assert parsed().chunks_per_node == 7
    with pytest.raises(FormatError, match=f"{len(TEXT) + 1} characters, expected at most {len(TEXT)}"):
        parsed("<Algo", " <Algo")
    monkeypatch.setattr(reader, "MAX_SENDS", 3)
    with pytest.raises(FormatError, match="more than 3 sends"):
        parsed()


def faults(*changes: tuple[str, str]) -> tuple[str, ...]:
    """What the judge says of the text after these changes."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return interpret([text.encode()], Terms()).violations


LAST = '    <send src="gpu2" dst="gpu10" path="gpu2,gpu10"/>\n'


def test_faults_of_trees_are_told() -> None:
    found = interpret([TEXT.encode()], Terms())
    assert (found.check, found.violations, found.n_ranks) == (Check.EXECUTED, (), 3)
    assert (found.collective, found.detail) == ("broadcast", "")
    assert found.counts == (("tree", 2), ("send", 4))
    assert faults(('height="2"', 'height="1"')) == ("line 4: height 1, found 2",)
    assert faults((LAST, "")) == ("line 8: the tree never reaches 1 nodes, first gpu10",)
    assert faults((LAST, LAST * 2)) == ("line 8: gpu2 to gpu10: sends what is there already",)
    assert faults(('nchunks="4"', 'nchunks="5"')) == ("trees of root gpu2 carry 8 chunks, expected 7",)
    early = '<send src="gpu10" dst=" gpu1 " path="gpu10,gpu1"/>'
    assert faults((early, early.replace(" gpu1 ", "gpu3").replace(",gpu1", ",gpu3"))) == (
        "line 4: the tree never reaches 1 nodes, first gpu1",
        "line 8: the tree never reaches 1 nodes, first gpu3",
    )
    assert faults(('src="gpu2" dst="gpu1" path="gpu2', 'src="gpu10" dst="gpu1" path="gpu10')) == (
        "line 8: gpu10 to gpu1: sends what it has not got",
        "line 8: the tree never reaches 1 nodes, first gpu1",
    )


def test_several_roots_each_carry_all_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXT.replace('root="gpu2" index="1"', 'root="gpu1" index="1"')
    text = text.replace('src="gpu2" dst="gpu1" path="gpu2', 'src="gpu1" dst="gpu2" path="gpu1')
    text = text.replace("'e,f',gpu1", "'e,f',gpu2").replace('height="1"', 'height="2"')
    found = interpret([text.encode()], Terms())
    assert found.collective == "allgather"
    assert found.violations == (
        "trees of root gpu1 carry 4 chunks, expected 7",
        "trees of root gpu2 carry 3 chunks, expected 7",
        "trees of root gpu10 carry 0 chunks, expected 7",
    )
    assert judge_module.MAX_VIOLATIONS == 1000
    monkeypatch.setattr(judge_module, "MAX_VIOLATIONS", 3)
    assert interpret([text.encode()], Terms()).violations == found.violations
    monkeypatch.setattr(judge_module, "MAX_VIOLATIONS", 1)
    assert interpret([text.encode()], Terms()).violations == (found.violations[0], "and 2 more")


def test_trees_have_numbers_for_names() -> None:
    """Ranks 0, 1, 2 are gpu1, gpu2, gpu10."""
    found = trees(TEXT.encode(), Terms())
    assert found.ranks == ("gpu1", "gpu2", "gpu10")
    assert found.trees == (
        NamedTree(1, 3, {2: 1, 0: 2}, {2: ("sw (1, 2)",), 0: ()}, "line 4"),
        NamedTree(1, 4, {0: 1, 2: 1}, {0: ("['a,b']", '"c,d"', "'e,f'"), 2: ()}, "line 8"),
    )
    with pytest.raises(ScheduleError, match="line 8: no tree from gpu2 to all 3 nodes"):
        trees(TEXT.replace(LAST, "").encode(), Terms())
    turned = TEXT.replace('dst="gpu10" path="gpu2,gpu10"', 'dst="gpu2" path="gpu2,gpu2"')
    with pytest.raises(ScheduleError, match="file: line 8: no tree from gpu2 to all 3 nodes"):
        trees(turned.encode(), Terms(source="file"))
