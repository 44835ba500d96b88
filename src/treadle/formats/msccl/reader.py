"""MSCCL XML as strictly as the runtimes read it; what a text means is told from the text alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from lxml import etree

from treadle.errors import FormatError
from treadle.formats.verdict import Terms, decoded
from treadle.formats.xml_elements import DECLARATIONS, Attributes, line_of, parse_xml

MAX_TEXT = 64 * 2**20
"""Largest text read, characters."""
MAX_CHUNKS = 4 * 10**6
"""Largest number of ranks times chunks."""

_COLLECTIVES = ("allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall")
LIMITS = {"azure": (64, 1024, 32), "legacy": (256, 216, 32), "rccl": (64, 64, 128)}
"""Steps of a thread block, thread blocks of a rank, channels, for each profile."""
LEGACY_SIZES = {"minBytes": 0, "maxBytes": 2**27}
"""Defaults of microsoft/msccl for absent attributes (src/graph/topo.cc); other runtimes require both."""
RECEIVING = {"r", "rcs", "rrs", "rrc", "rrcs"}
SENDING = {"s", "rcs", "rrs", "rrcs"}
STORING = {"r", "rcs", "rrc", "rrcs", "cpy", "re"}
READING = {"s", "rrs", "rrc", "rrcs", "cpy", "re"}
_STEP_TYPES = tuple(sorted(RECEIVING | SENDING | STORING | {"nop"}))


@dataclass(frozen=True)
class MscclStep:
    """A step as written; `source` and `target` are (buffer, offset), `wait` is (depid, deps)."""

    rank: int
    block: int
    """Number of the thread block among those of all ranks."""
    place: int
    type: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    wait: tuple[int, int]
    has_dependent: bool
    line: int

    def __str__(self) -> str:
        return f"line {self.line} (rank {self.rank}, {self.type})"


@dataclass
class Algorithm:
    """A text as written, its thread blocks numbered over all ranks, and what is wrong with it so far."""

    collective: str
    n_ranks: int
    n_chunks: int
    in_place: tuple[bool, ...]
    defaults: tuple[str, ...] = ()
    """Absent attributes and the values that the runtime takes for them."""
    sizes: list[dict[str, int]] = field(default_factory=list)
    steps: list[MscclStep] = field(default_factory=list)
    blocks: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Rank, send peer, receive peer and channel of each thread block."""
    first_block: list[int] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


_REFUSED = (
    (r"<\?", "an XML declaration or processing instruction"),
    DECLARATIONS,
    (r"\t", "a tab"),
    (r"\0", "a null character"),
    (r"<[A-Za-z/][^<>]*'", "a single quote"),
    (r"<[A-Za-z/][^<>\n]*\n", "a line break within a tag"),
)
"""Where the runtimes' own small parser would stumble."""


def read(data: bytes, terms: Terms) -> Algorithm:
    """Read a text as a runtime does, by default msccl-executor-nccl."""
    text, source = decoded(data, terms, "MSCCL XML")
    return parse_msccl_xml(text, terms.profile or "azure", source)


def first_parsed(text: str, profile: str | None, source: str) -> Algorithm:
    """Read a text as the first runtime that reads it, or as that of a profile."""
    refusals = []
    for name in LIMITS if profile is None else (profile,):
        try:
            return parse_msccl_xml(text, name, source)
        except FormatError as error:
            refusals.append(error)
    raise refusals[0]


def parse_msccl_xml(text: str, profile: str, source: str) -> Algorithm:
    """Read a text; FormatError where the runtime's parser would refuse it, violations where a limit fails."""
    read, top = Attributes(source), parse_xml(text, source, MAX_TEXT, _REFUSED)
    if top.tag != "algo":
        raise read.fail(top, "found, expected <algo>")
    spelling = "reduce_scatter" if profile == "legacy" else "reducescatter"
    names = tuple(spelling if name == "reducescatter" else name for name in _COLLECTIVES)
    read.choice(top, "proto", ("Simple", "LL", "LL128"))
    steps, thread_blocks, channels = LIMITS[profile]
    n_channels = read.number(top, "nchannels", 1, 2**15)
    absent = [key for key in LEGACY_SIZES if profile == "legacy" and top.get(key) is None]
    least, most = (
        LEGACY_SIZES[key] if key in absent else read.number(top, key, 0, 2**62) for key in LEGACY_SIZES
    )
    if profile == "legacy" and least > most:
        raise read.fail(top, f"minBytes={least}: expected at most maxBytes={most}")
    # return whether calls in place, out of place or both are supported
    in_place = read.number(top, "inplace", 0, 1)
    # the legacy runtime serves one mode and ignores `outofplace`, which msccl-tools does not write
    out_of_place = 1 - in_place if profile == "legacy" else read.number(top, "outofplace", 0, 1)
    algorithm = Algorithm(
        collective=read.choice(top, "coll", names),
        n_ranks=read.number(top, "ngpus", 1, 4096),
        n_chunks=read.number(top, "nchunksperloop", 1, MAX_CHUNKS),
        in_place=tuple(mode for flag, mode in ((in_place, True), (out_of_place, False)) if flag),
        defaults=tuple(f"{key} {LEGACY_SIZES[key]}" for key in absent),
    )
    if algorithm.n_ranks * algorithm.n_chunks > MAX_CHUNKS:
        raise read.fail(top, f"ngpus x nchunksperloop: expected at most {MAX_CHUNKS}")
    if not algorithm.in_place:
        raise read.fail(top, "serves neither in-place nor out-of-place calls")
    if n_channels > channels:
        algorithm.violations.append(f"{n_channels} channels, the limit is {channels}")
    gpus = _children(top, "gpu")
    if len(gpus) != algorithm.n_ranks:
        raise read.fail(top, f"holds {len(gpus)} gpus, expected ngpus={algorithm.n_ranks}")
    for rank, gpu in enumerate(gpus):
        read.number(gpu, "id", rank, rank)
        algorithm.sizes.append({key: read.number(gpu, f"{key}_chunks", 0, MAX_CHUNKS) for key in "ios"})
        algorithm.first_block.append(len(algorithm.blocks))
        _parse_blocks(read, algorithm, rank, gpu, n_channels, steps, thread_blocks)
    algorithm.first_block.append(len(algorithm.blocks))
    return algorithm


def _children(element: etree._Element, tag: str) -> list[etree._Element]:
    """Return the children of one tag; others are skipped, as the runtimes do."""
    return [child for child in element if child.tag == tag]


def _parse_blocks(
    read: Attributes,
    algorithm: Algorithm,
    rank: int,
    gpu: etree._Element,
    n_channels: int,
    max_steps: int,
    max_blocks: int,
) -> None:
    n, violations = algorithm.n_ranks, algorithm.violations
    nodes = 1 + n + len(gpu)
    peers: dict[tuple[str, int], set[int]] = defaultdict(set)
    for number, block in enumerate(_children(gpu, "tb")):
        read.number(block, "id", number, number)
        send, receive = (read.number(block, key, -1, n - 1) for key in ("send", "recv"))
        if rank in (send, receive):
            raise read.fail(block, f"of gpu {rank} names its own rank as a peer")
        channel = read.number(block, "chan", 0, n_channels - 1)
        for side, peer in (("send", send), ("receive", receive)):
            if peer >= 0 and peer in peers[side, channel]:
                raise read.fail(block, f"is the second to {side} with peer {peer} on channel {channel}")
            peers[side, channel].update({peer} - {-1})
        algorithm.blocks.append((rank, send, receive, channel))
        children = _children(block, "step")
        nodes += len(children)
        if len(children) > max_steps:
            violations.append(f"rank {rank} tb {number}: {len(children)} steps, the limit is {max_steps}")
        for place, element in enumerate(children):
            read.number(element, "s", place, place)
            algorithm.steps.append(_parse_step(read, element, rank, len(algorithm.blocks) - 1, place))
    for what, value, limit in (
        ("peers on a channel", max(map(len, peers.values()), default=0), 32),
        ("thread blocks", len(gpu), max_blocks),
        ("children of a node", max(len(gpu), n), 1024),
        ("XML nodes", nodes, 4096),
    ):
        if value > limit:
            violations.append(f"rank {rank}: {value} {what}, the limit is {limit}")


def _parse_step(read: Attributes, element: etree._Element, rank: int, block: int, place: int) -> MscclStep:
    source, target = (
        (
            read.choice(element, f"{side}buf", ("i", "o", "s")),
            read.number(element, f"{side}off", -1, MAX_CHUNKS),
        )
        for side in ("src", "dst")
    )
    waits = (read.number(element, "depid", -1, 1023), read.number(element, "deps", -1, 4095))
    if (waits[0] < 0) != (waits[1] < 0):
        raise read.fail(element, f"depid={waits[0]} with deps={waits[1]}: expected both or neither")
    type_ = read.choice(element, "type", _STEP_TYPES)
    return MscclStep(
        rank=rank,
        block=block,
        place=place,
        type=type_,
        source=source,
        target=target,
        count=read.number(element, "cnt", int(type_ != "nop"), 71),
        wait=waits,
        has_dependent=bool(read.number(element, "hasdep", 0, 1)),
        line=line_of(element),
    )
