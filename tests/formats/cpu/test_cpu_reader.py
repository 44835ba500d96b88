"""CPU XML as it is read: every attribute, and the values on either side of what each may be."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.formats.cpu import reader
from treadle.formats.cpu.reader import CpuFile, Instruction, RankFile, parse_cpu_xml

TEXT = """\
<cpu collective="broadcast" ranks="3" chunks="20" root="2" inplace="0" minBytes="0" maxBytes="9">
  <!-- of three ranks -->
  <rank id="0" i="0-3 5-5 8-11" o="2-4" s="" slots="6">
    <send peer="2" buf="i" chunk="9" cnt="3"/>
    <recv peer="1" buf="o" chunk="2" cnt="1"/>
    <recv peer="1" slot="5" chunk="0" cnt="4"/>
    <reduce slot="4" buf="s" chunk="7" cnt="2"/>
    <copy buf="s" dbuf="o" chunk="4" cnt="8"/>
    <sync/>
  </rank>
  <rank id="1" slots="0"></rank>
  <rank id="2" s="7-7" slots="1"></rank>
</cpu>
"""
MOST = 2**40


def parsed(old: str = "", new: str = "") -> CpuFile:
    """The text with its first such words replaced."""
    assert old in TEXT
    return parse_cpu_xml(TEXT.replace(old, new, 1), source="file")


def test_every_part_is_read() -> None:
    assert parsed() == CpuFile(
        collective="broadcast",
        n_chunks=20,
        root=2,
        in_place=False,
        ranks=(
            RankFile(
                {"i": (range(4), range(5, 6), range(8, 12)), "o": (range(2, 5),), "s": ()},
                6,
                (
                    Instruction("send", 4, peer=2, buffer="i", chunk=9, count=3),
                    Instruction("recv", 5, peer=1, buffer="o", chunk=2, count=1),
                    Instruction("recv", 6, peer=1, slot=5, chunk=0, count=4),
                    Instruction("reduce", 7, buffer="s", slot=4, chunk=7, count=2),
                    Instruction("copy", 8, buffer="s", target="o", chunk=4, count=8),
                    Instruction("sync", 9),
                ),
            ),
            RankFile({"i": (), "o": (), "s": ()}, 0, ()),
            RankFile({"i": (), "o": (), "s": (range(7, 8),)}, 1, ()),
        ),
    )
    assert parsed('inplace="0"', 'inplace="1"').in_place


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('chunks="20"', f'chunks="{MOST}"'),
        ('chunks="20"', 'chunks="1"'),
        ('root="2"', 'root="-1"'),
        ('minBytes="0"', f'minBytes="{2**62}"'),
        ('chunk="9"', f'chunk="{2**60}"'),
        ('cnt="3"', f'cnt="{MOST}"'),
        ('slot="5"', f'slot="{MOST}"'),
        ('chunk="9"', 'chunk="0000000000000000009"'),
        ("0-3 5-5", "0-3\n5-5"),
        ("8-11", "8-100000000000"),
    ],
)
def test_a_value_at_its_limit_is_read(old: str, new: str) -> None:
    assert len(parsed(old, new).ranks) == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<!-- of", "<![CDATA[a]]><!-- of", ": a DTD, entity or CDATA section is not accepted"),
        ("<sync/>", "</sync>", ":9: not well-formed ("),
        ('ranks="3"', 'ranks="0"', ":1: <cpu> ranks='0': expected an integer from 1 to 1048576"),
        ('ranks="3"', 'ranks="1048577"', "ranks='1048577': expected an integer from 1 to 1048576"),
        ('ranks="3"', 'ranks="4"', ":1: <cpu> holds 3 elements, expected 4 ranks"),
        ('<rank id="1" slots="0"></rank>', "<sync/>", "<cpu> holds 3 elements, expected 3 ranks"),
        ('chunks="20"', 'chunks="0"', "chunks='0': expected an integer from 1 to 1099511627776"),
        ('chunks="20"', f'chunks="{MOST + 1}"', "chunks='1099511627777': expected an integer"),
        ('minBytes="0"', 'minBytes="-1"', "minBytes='-1': expected an integer from 0 to 4611686018427387904"),
        ('maxBytes="9"', f'maxBytes="{2**62 + 1}"', "maxBytes='4611686018427387905': expected an integer"),
        (' maxBytes="9"', "", ":1: <cpu> lacks the attribute maxBytes"),
        (
            '"broadcast"',
            '"reduce_scatter"',
            "collective='reduce_scatter': expected one of allgather, reduce-",
        ),
        ('root="2"', 'root="3"', "root='3': expected an integer from -1 to 2"),
        ('root="2"', 'root="-2"', "root='-2': expected an integer from -1 to 2"),
        ('inplace="0"', 'inplace="2"', "inplace='2': expected an integer from 0 to 1"),
        ('inplace="0"', 'inplace="+1"', "inplace='+1': expected an integer from 0 to 1"),
        ('inplace="0"', f'inplace="{"0" * 20}"', "expected an integer from 0 to 1"),
        ('rank id="1"', 'rank id="2"', ":11: <rank> id='2': expected an integer from 1 to 1"),
        ('slots="6"', 'slots="-1"', ":3: <rank> slots='-1': expected an integer from 0 to 1099511627776"),
        ('slots="6"', f'slots="{MOST + 1}"', "slots='1099511627777': expected an integer"),
        ('i="0-3 5-5', 'i="0-3 4-5', ":3: <rank> i: '4-5': expected rising ranges such as 0-3 8-11"),
        ('o="2-4"', 'o="4-2"', "o: '4-2': expected rising ranges"),
        ('s="7-7"', 's="7"', "s: '7': expected rising ranges"),
        ('s="7-7"', f's="7-{10**15}"', "expected rising ranges"),
        ("<sync/>", "<nop/>", ":9: <nop> is no instruction; expected one of send, recv, copy, reduce, sync"),
        ('send peer="2"', 'send peer="0"', ":4: <send> names its own rank as the peer"),
        ('send peer="2"', 'send peer="3"', "peer='3': expected an integer from 0 to 2"),
        ('recv peer="1" buf', 'recv peer="0" buf', ":5: <recv> names its own rank as the peer"),
        ('buf="i"', 'buf="x"', "buf='x': expected one of i, o, s"),
        ('recv peer="1" buf="o"', 'recv peer="1"', ":5: <recv> buf='': expected one of i, o, s"),
        ('dbuf="o"', 'dbuf="t"', ":8: <copy> dbuf='t': expected one of i, o, s"),
        ('slot="4"', 'slot="-1"', ":7: <reduce> slot='-1': expected an integer from 0 to 1099511627776"),
        ('reduce slot="4"', "reduce", ":7: <reduce> lacks the attribute slot"),
        (
            'chunk="9"',
            'chunk="-1"',
            ":4: <send> chunk='-1': expected an integer from 0 to 1152921504606846976",
        ),
        ('chunk="9"', f'chunk="{2**60 + 1}"', "chunk='1152921504606846977': expected an integer"),
        ('cnt="3"', 'cnt="0"', "cnt='0': expected an integer from 1 to 1099511627776"),
        ('cnt="3"', f'cnt="{MOST + 1}"', "cnt='1099511627777': expected an integer"),
    ],
)
def test_a_value_beyond_its_limit_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parsed(old, new)
    assert message in str(caught.value)
    assert str(caught.value).startswith("file:")


@pytest.mark.parametrize(
    ("old", "new"), [('i="0-3 5-5 8-11"', 'i="0-{}"'), ('s="7-7"', 's="0-{}"'), ('slots="1"', 'slots="{}"')]
)
def test_chunks_of_all_buffers_count_together(old: str, new: str) -> None:
    """2**40 in all: the others are 9 of input, 3 of output, 1 of scratch and 7 slots of 20."""
    rest = 20 - {"i": 9, "s": 1}.get(old[0], 1)
    if old.startswith("slots"):
        rest, least = 19, 0
    else:
        least = 1
    left = MOST - rest - least
    assert len(parsed(old, new.format(left)).ranks) == 3
    with pytest.raises(FormatError, match=f"expected at most {MOST} chunks in all buffers together"):
        parsed(old, new.format(left + 1))


def test_other_tops_and_long_texts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match="file:1: <rank> found, expected <cpu>"):
        parse_cpu_xml("<rank/>", source="file")
    assert (reader.MAX_TEXT, reader.MAX_RANKS, reader.MAX_CELLS) == (268435456, 1048576, 1099511627776)
    monkeypatch.setattr(reader, "MAX_TEXT", len(TEXT))
    assert parsed().root == 2
    with pytest.raises(FormatError, match=f"{len(TEXT) + 1} characters, expected at most {len(TEXT)}"):
        parsed("\n", "\n\n")
    with pytest.raises(FormatError, match="not valid text"):
        parse_cpu_xml("\ud800")
