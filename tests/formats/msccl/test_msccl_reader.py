"""MSCCL XML as it is read: every attribute, and the values on either side of what each may be."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.formats.msccl import reader
from treadle.formats.msccl.reader import Algorithm, MscclStep, parse_msccl_xml

TEXT = """\
<algo name="odd" proto="LL128" nchannels="3" nchunksperloop="7" ngpus="3" coll="broadcast" inplace="0" \
outofplace="1" minBytes="5" maxBytes="4">
  <!-- of three ranks -->
  <gpu id="0" i_chunks="7" o_chunks="6" s_chunks="5">
    <tb id="0" send="2" recv="1" chan="2">
<step s="0" type="rrcs" srcbuf="i" srcoff="3" dstbuf="s" dstoff="4" cnt="2" depid="1" deps="0" hasdep="0"/>
<step s="1" type="nop" srcbuf="o" srcoff="-1" dstbuf="i" dstoff="-1" cnt="0" depid="-1" deps="-1" hasdep="1"/>
    </tb>
    <note/>
    <tb id="1" send="-1" recv="-1" chan="0">
<step s="0" type="cpy" srcbuf="s" srcoff="0" dstbuf="o" dstoff="1" cnt="71" depid="-1" deps="-1" hasdep="1"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0"></gpu>
  <gpu id="2" i_chunks="0" o_chunks="3" s_chunks="9">
    <tb id="0" send="1" recv="0" chan="1"></tb>
  </gpu>
</algo>
"""
RRCS, NOP, COPY = 'srcoff="3" dstbuf="s" dstoff="4" cnt="2" depid="1" deps="0"', 'cnt="0"', 'cnt="71"'


def parsed(old: str = "", new: str = "", profile: str = "azure") -> Algorithm:
    """The text with its first such words replaced."""
    assert old in TEXT
    return parse_msccl_xml(TEXT.replace(old, new, 1), profile, "file")


def test_every_part_is_read() -> None:
    found = parsed()
    assert (found.collective, found.n_ranks, found.n_chunks, found.in_place) == ("broadcast", 3, 7, (False,))
    assert found.sizes == [{"i": 7, "o": 6, "s": 5}, {"i": 1, "o": 2, "s": 0}, {"i": 0, "o": 3, "s": 9}]
    assert found.blocks == [(0, 2, 1, 2), (0, -1, -1, 0), (2, 1, 0, 1)]
    assert found.first_block == [0, 2, 2, 3]
    assert found.violations == []
    assert found.steps == [
        MscclStep(0, 0, 0, "rrcs", ("i", 3), ("s", 4), 2, (1, 0), False, 5),
        MscclStep(0, 0, 1, "nop", ("o", -1), ("i", -1), 0, (-1, -1), True, 6),
        MscclStep(0, 1, 0, "cpy", ("s", 0), ("o", 1), 71, (-1, -1), True, 10),
    ]
    assert str(found.steps[2]) == "line 10 (rank 0, cpy)"
    for flags, modes in (('"1" outofplace="0"', (True,)), ('"1" outofplace="1"', (True, False))):
        assert parsed('"0" outofplace="1"', flags).in_place == modes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('nchannels="3"', 'nchannels="32"'),
        ('minBytes="5"', f'minBytes="{2**62}"'),
        ('maxBytes="4"', 'maxBytes="0"'),
        ('ngpus="3"', 'ngpus="003"'),
        ('chan="2"', 'chan="0"'),
        ('send="2"', 'send="1"'),
        ('srcoff="3"', 'srcoff="4000000"'),
        ('dstoff="4"', 'dstoff="-1"'),
        (RRCS, RRCS.replace('depid="1" deps="0"', 'depid="1023" deps="4095"')),
        (RRCS, RRCS.replace('depid="1" deps="0"', 'depid="0" deps="0"')),
        (RRCS, RRCS.replace('cnt="2"', 'cnt="1"')),
        ('i_chunks="7"', 'i_chunks="4000000"'),
        ('nchunksperloop="7"', 'nchunksperloop="1333333"'),
        ('nchunksperloop="7"', 'nchunksperloop="1"'),
        ('proto="LL128"', 'proto="Simple"'),
        ('coll="broadcast"', 'coll="reducescatter"'),
        ('type="rrcs"', 'type="re"'),
    ],
)
def test_a_value_at_its_limit_is_read(old: str, new: str) -> None:
    assert parsed(old, new).violations == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<algo ", '<algo x="\t" ', "1: a tab is not accepted"),
        ("<!-- of", "<![CDATA[a]]><!-- of", "2: a DTD, entity or CDATA section is not accepted"),
        ("<note/>", "<?note?>", "8: an XML declaration or processing instruction is not accepted"),
        ("<note/>", "<note\n/>", "8: a line break within a tag is not accepted"),
        ("<note/>", "<note a='1'/>", "8: a single quote is not accepted"),
        ("<note/>", "</note>", "8: not well-formed ("),
        (' proto="LL128"', "", "1: <algo> lacks the attribute proto"),
        ('proto="LL128"', 'proto="LL256"', "proto='LL256': expected one of Simple, LL, LL128"),
        ('coll="broadcast"', 'coll="reduce_scatter"', "coll='reduce_scatter': expected one of allreduce"),
        ('nchannels="3"', 'nchannels="0"', "nchannels='0': expected an integer from 1 to 32768"),
        ('nchannels="3"', 'nchannels="32769"', "nchannels='32769': expected an integer from 1 to 32768"),
        ('nchannels="3"', 'nchannels="+3"', "nchannels='+3': expected an integer"),
        ('nchannels="3"', 'nchannels=""', "nchannels='': expected an integer"),
        ('nchannels="3"', f'nchannels="{"0" * 19}3"', "expected an integer from 1 to"),
        ('minBytes="5"', 'minBytes="-1"', "minBytes='-1': expected an integer from 0 to 4611686018427387904"),
        ('maxBytes="4"', f'maxBytes="{2**62 + 1}"', "maxBytes='4611686018427387905': expected an integer"),
        ('inplace="0"', 'inplace="2"', "inplace='2': expected an integer from 0 to 1"),
        ('outofplace="1"', 'outofplace="2"', "outofplace='2': expected an integer from 0 to 1"),
        ('outofplace="1"', 'outofplace="0"', "supports neither in-place nor out-of-place calls"),
        ('ngpus="3"', 'ngpus="0"', "ngpus='0': expected an integer from 1 to 4096"),
        ('ngpus="3"', 'ngpus="4097"', "ngpus='4097': expected an integer from 1 to 4096"),
        ('ngpus="3"', 'ngpus="2"', "1: <algo> holds 3 gpus, expected ngpus=2"),
        ('nchunksperloop="7"', 'nchunksperloop="0"', "nchunksperloop='0': expected an integer from 1 to"),
        ('nchunksperloop="7"', 'nchunksperloop="4000001"', "expected an integer from 1 to 4000000"),
        (
            'nchunksperloop="7"',
            'nchunksperloop="1333334"',
            "ngpus x nchunksperloop: expected at most 4000000",
        ),
        ('gpu id="1"', 'gpu id="2"', "13: <gpu> id='2': expected an integer from 1 to 1"),
        ('o_chunks="6"', 'o_chunks="-1"', "o_chunks='-1': expected an integer from 0 to 4000000"),
        ('s_chunks="5"', 's_chunks="4000001"', "s_chunks='4000001': expected an integer from 0 to 4000000"),
        ('tb id="1"', 'tb id="2"', "9: <tb> id='2': expected an integer from 1 to 1"),
        ('send="2"', 'send="3"', "4: <tb> send='3': expected an integer from -1 to 2"),
        ('recv="1"', 'recv="-2"', "4: <tb> recv='-2': expected an integer from -1 to 2"),
        ('send="2"', 'send="0"', "4: <tb> of gpu 0 names its own rank as a peer"),
        ('recv="0" chan="1"', 'recv="2" chan="1"', "15: <tb> of gpu 2 names its own rank as a peer"),
        ('chan="2"', 'chan="3"', "chan='3': expected an integer from 0 to 2"),
        ('s="1"', 's="2"', "6: <step> s='2': expected an integer from 1 to 1"),
        ('type="rrcs"', 'type="rss"', "type='rss': expected one of cpy, nop, r, rcs, re, rrc, rrcs, rrs, s"),
        ('srcbuf="i"', 'srcbuf="x"', "srcbuf='x': expected one of i, o, s"),
        ('dstbuf="s"', 'dstbuf=""', "dstbuf='': expected one of i, o, s"),
        ('srcoff="3"', 'srcoff="-2"', "srcoff='-2': expected an integer from -1 to 4000000"),
        ('dstoff="4"', 'dstoff="4000001"', "dstoff='4000001': expected an integer from -1 to 4000000"),
        ('depid="1"', 'depid="1024"', "depid='1024': expected an integer from -1 to 1023"),
        ('deps="0"', 'deps="4096"', "deps='4096': expected an integer from -1 to 4095"),
        ('depid="1"', 'depid="-1"', "5: <step> depid=-1 with deps=0: expected both or neither"),
        ('deps="0"', 'deps="-1"', "5: <step> depid=1 with deps=-1: expected both or neither"),
        ('cnt="2"', 'cnt="0"', "cnt='0': expected an integer from 1 to 71"),
        ('cnt="71"', 'cnt="72"', "cnt='72': expected an integer from 1 to 71"),
        (NOP, 'cnt="-1"', "cnt='-1': expected an integer from 0 to 71"),
        ('hasdep="0"', 'hasdep="2"', "hasdep='2': expected an integer from 0 to 1"),
        ("<algo ", "<algos ", "not well-formed"),
    ],
)
def test_a_value_beyond_its_limit_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parsed(old, new)
    assert message in str(caught.value)
    assert str(caught.value).startswith("file:")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ('<tb id="1" send="2" recv="-1" chan="2">', "is the second to send with peer 2 on channel 2"),
        ('<tb id="1" send="-1" recv="1" chan="2">', "is the second to receive with peer 1 on channel 2"),
        ('<tb id="1" send="1" recv="2" chan="2">', ""),
        ('<tb id="1" send="2" recv="1" chan="1">', ""),
        ('<tb id="1" send="-1" recv="-1" chan="2">', ""),
    ],
)
def test_a_stream_has_one_thread_block(other: str, message: str) -> None:
    old = '<tb id="1" send="-1" recv="-1" chan="0">'
    if not message:
        assert len(parsed(old, other).blocks) == 3
        return
    with pytest.raises(FormatError, match=f"file:9: <tb> {message}"):
        parsed(old, other)


def test_dialects_differ_in_spelling_and_limits() -> None:
    old = 'coll="broadcast" inplace="0" outofplace="1" minBytes="5" maxBytes="4"'
    new = 'coll="{}" inplace="0" outofplace="1" minBytes="4" maxBytes="4"'
    assert parsed(old, new.format("reduce_scatter"), "legacy").collective == "reduce_scatter"
    with pytest.raises(FormatError, match="coll='reducescatter': expected one of allreduce, allgather"):
        parsed(old, new.format("reducescatter"), "legacy")
    with pytest.raises(FormatError, match="file:1: <algo> minBytes=5: expected at most maxBytes=4"):
        parsed(profile="legacy")
    assert parsed(old, new.format("reducescatter"), "rccl").collective == "reducescatter"
    for profile, channels in (("azure", 32), ("legacy", 32), ("rccl", 128)):
        text = TEXT.replace('minBytes="5"', 'minBytes="0"')
        found = [text.replace('nchannels="3"', f'nchannels="{one}"') for one in (channels, channels + 1)]
        assert parse_msccl_xml(found[0], profile, "file").violations == []
        assert parse_msccl_xml(found[1], profile, "file").violations == [
            f"{channels + 1} channels, the limit is {channels}"
        ]


@pytest.mark.parametrize(
    ("old", "new", "defaults"),
    [
        (' minBytes="5"', "", ("minBytes 0",)),
        (' minBytes="5" maxBytes="4"', "", ("minBytes 0", "maxBytes 134217728")),
        (' maxBytes="4"', "", ("maxBytes 134217728",)),
        (' outofplace="1" minBytes="5"', "", ("minBytes 0",)),
    ],
)
def test_the_legacy_runtime_has_defaults_for_sizes(old: str, new: str, defaults: tuple[str, ...]) -> None:
    found = parsed(old, new, "legacy")
    assert (found.defaults, found.in_place, found.violations) == (defaults, (False,), [])
    for profile in ("azure", "rccl"):
        with pytest.raises(FormatError, match="lacks the attribute"):
            parsed(old, new, profile)


def test_the_legacy_runtime_serves_the_mode_that_inplace_names() -> None:
    for flags, modes in (('"1" outofplace="1"', (True,)), ('"0" outofplace="0"', (False,))):
        text = TEXT.replace('"0" outofplace="1" minBytes="5"', f'{flags} minBytes="0"')
        assert parse_msccl_xml(text, "legacy", "file").in_place == modes
    with pytest.raises(FormatError, match="lacks the attribute inplace"):
        parsed(' inplace="0" outofplace="1" minBytes="5"', "", "legacy")


def test_other_tops_and_long_texts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match="file:1: <gpu> found, expected <algo>"):
        parse_msccl_xml("<gpu/>", "azure", "file")
    assert (reader.MAX_TEXT, reader.MAX_CHUNKS) == (67108864, 4000000)
    monkeypatch.setattr(reader, "MAX_TEXT", len(TEXT))
    assert parsed().n_ranks == 3
    with pytest.raises(FormatError, match=f"{len(TEXT) + 1} characters, expected at most {len(TEXT)}"):
        parsed("\n", "\n\n")


def crowd(ranks: int, blocks: int, profile: str, steps: int = 0, peers: int = 0) -> list[str]:
    """What is said of rank 0 with so many thread blocks, the first with steps; others receive from peers."""
    step = '<step s="{}" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="-1" '
    lines = "".join(f'{step.format(place)}deps="-1" hasdep="0"/>' for place in range(steps))
    made = "".join(
        f'<tb id="{place}" send="-1" recv="{place if 0 < place <= peers else -1}" chan="0">'
        f"{'' if place else lines}</tb>"
        for place in range(blocks)
    )
    gpus = "".join(
        f'<gpu id="{rank}" i_chunks="1" o_chunks="1" s_chunks="0"><!-- tb -->{"" if rank else made}</gpu>'
        for rank in range(ranks)
    )
    head = f'<algo proto="LL" coll="reduce" ngpus="{ranks}" nchannels="1" nchunksperloop="1" minBytes="0" '
    text = f'{head}maxBytes="0" inplace="1" outofplace="0">{gpus}</algo>'
    return parse_msccl_xml(text, profile, "file").violations


@pytest.mark.parametrize(
    ("profile", "steps", "blocks"), [("azure", 64, 1024), ("legacy", 256, 216), ("rccl", 64, 64)]
)
def test_thread_blocks_and_steps_have_the_dialects_limits(profile: str, steps: int, blocks: int) -> None:
    assert crowd(2, blocks, profile) == []
    more = f"{blocks + 1} thread blocks, the limit is {blocks}"
    assert f"rank 0: {more}" in crowd(2, blocks + 1, profile)
    assert crowd(2, 1, profile, steps) == []
    assert crowd(2, 1, profile, steps + 1) == [f"rank 0 tb 0: {steps + 1} steps, the limit is {steps}"]


def test_peers_of_a_channel_children_and_nodes_are_counted() -> None:
    assert crowd(40, 34, "azure", peers=32) == []
    assert crowd(40, 34, "azure", peers=33) == ["rank 0: 33 peers on a channel, the limit is 32"]
    assert crowd(2, 1025, "azure")[1:] == ["rank 0: 1025 children of a node, the limit is 1024"]
    # one for the top, 4000 ranks, 31 thread blocks and 64 steps are 4096
    children = [f"rank {rank}: 4000 children of a node, the limit is 1024" for rank in range(4000)]
    assert crowd(4000, 31, "azure", 64) == children
    over = "rank 0: 4097 XML nodes, the limit is 4096"
    assert crowd(4000, 32, "azure", 64) == [children[0], over, *children[1:]]
