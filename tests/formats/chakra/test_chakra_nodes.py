"""Chakra traces node by node: what is written of each operation, what is read, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.formats.chakra import interpreter as judge_module
from treadle.formats.chakra import writer as writer_module
from treadle.formats.chakra.interpreter import TraceNode, interpret, interpret_chakra, parse_chakra
from treadle.formats.chakra.schema import schema
from treadle.formats.chakra.step_traces import StepNode, emit_step_trace
from treadle.formats.chakra.writer import emit_chakra, length_delimited
from treadle.formats.verdict import Check, Terms
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.schedules.collective import CollectiveKind

pytest.importorskip(
    "google.protobuf", reason="Chakra: protobuf is not installed; pip install 'treadle[chakra]'"
)

Row = tuple[int, str, int, list[int], dict[str, int | bool | str]]


def rows(trace: bytes) -> list[Row]:
    """(number, name, type, what it waits for, attributes) of every node, without the judge's reader."""
    pieces = messages(trace)
    found = []
    for piece in pieces[1:]:
        node = schema()["Node"].FromString(piece)
        values = {
            one.name: next(getattr(one, field.name) for field, _ in one.ListFields() if field.name != "name")
            if len(one.ListFields()) > 1
            else 0
            for one in node.attr
        }
        found.append((node.id, node.name, node.type, list(node.data_deps), values))
    return found


def messages(trace: bytes) -> list[bytes]:
    """A stream's messages: lengths of one or two bytes, seven bits each."""
    found, place = [], 0
    while place < len(trace):
        length, place = trace[place], place + 1
        if length >= 128:
            length, place = length - 128 + 128 * trace[place], place + 1
        found.append(trace[place : place + length])
        place += length
    return found


def odd_program() -> Program:
    """Rank 0's parts go to rank 1 on two channels, the second channel first; the sum goes round."""
    send, receive, add = OperationKind.SEND, OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE
    scratch = Buffer.SCRATCH
    return program_from_operations(
        CollectiveKind.ALLREDUCE,
        [
            [
                Operation(send, 0, 1, peer=1, channel=1),
                Operation(send, 1, 2, peer=1, channel=0),
                Operation(send, 2, 1, peer=2),
                Operation(receive, 0, 3, peer=2),
            ],
            [
                Operation(add, 1, 2, peer=0, channel=0, target=scratch),
                Operation(add, 0, 1, peer=0, channel=1, target=scratch),
                Operation(OperationKind.COPY, 1, 2, source=scratch, waits=(0,)),
                Operation(send, 0, 3, peer=2, source=scratch, waits=(0, 1)),
            ],
            [
                Operation(receive, 2, 1, peer=0, target=scratch),
                Operation(receive, 0, 3, peer=1),
                Operation(send, 0, 3, peer=0, source=Buffer.OUTPUT, waits=(1,)),
            ],
        ],
        n_chunks=3,
        shard_offset=[0, 1, 2, 3],
    )


def message(size: int, source: int, target: int, tag: int) -> dict[str, int | bool | str]:
    """Attributes of a send or receive."""
    ends = {"comm_src": source, "comm_dst": target, "comm_tag": tag}
    return {"is_cpu_op": False, "comm_size": size, **ends}


def compute(size: int, additions: int) -> dict[str, int | bool | str]:
    """Attributes of a sum or copy."""
    return {"is_cpu_op": False, "num_ops": additions, "tensor_size": size}


def test_every_node_of_a_program_is_written() -> None:
    """1000 bytes in three chunks: 333, 333 and 334."""
    traces = emit_chakra(odd_program(), 1000, name="odd")
    assert rows(traces[0]) == [
        (0, "odd.send.0-0", 5, [], message(333, 0, 1, 0)),
        (1, "odd.send.1-2", 5, [], message(667, 0, 1, 1)),
        (2, "odd.send.2-2", 5, [], message(334, 0, 2, 0)),
        (3, "odd.receive.0-2", 6, [], message(1000, 2, 0, 0)),
    ]
    assert rows(traces[1]) == [
        (0, "odd.receive_reduce.1-2.receive", 6, [], message(667, 0, 1, 1)),
        (1, "odd.receive_reduce.1-2", 4, [0], compute(667, 166)),
        (2, "odd.receive_reduce.0-0.receive", 6, [], message(333, 0, 1, 0)),
        (3, "odd.receive_reduce.0-0", 4, [2], compute(333, 83)),
        (4, "odd.copy.1-2", 4, [1], compute(667, 0)),
        (5, "odd.send.0-2", 5, [1, 3], message(1000, 1, 2, 0)),
    ]
    assert rows(traces[2])[2] == (2, "odd.send.0-2", 5, [1], message(1000, 2, 0, 0))
    metadata = schema()["GlobalMetadata"].FromString(messages(traces[2])[0])
    assert (metadata.version, [(one.name, one.string_val) for one in metadata.attr]) == (
        "0.0.4",
        [("schema", "symbolic")],
    )
    found = interpret_chakra(traces)
    assert (found.n_ranks, found.n_nodes, found.n_messages, found.violations) == (3, 13, 5, ())
    assert found.bytes_between == {(0, 1): 1000, (0, 2): 334, (1, 2): 1000, (2, 0): 1000}


def test_one_rank_alone_counts_its_messages_in_their_order() -> None:
    """Both directions of a pair apart, all channels together."""
    whole = odd_program()
    own = [
        Operation(OperationKind.RECEIVE_REDUCE, 1, 2, peer=0, channel=0, target=Buffer.SCRATCH),
        Operation(OperationKind.RECEIVE, 0, 1, peer=0, channel=1),
        Operation(OperationKind.COPY, 1, 2),
        Operation(OperationKind.SEND, 0, 3, peer=0),
        Operation(OperationKind.SEND, 0, 3, peer=2),
    ]
    part = program_from_operations(whole.kind, [[], own, []], n_chunks=3, shard_offset=[0, 1, 2, 3])
    (trace,) = emit_chakra(part, 1, only=1)
    assert [row[4].get("comm_tag") for row in rows(trace)] == [0, None, 1, None, 0, 0]
    assert [row[4].get("comm_size") for row in rows(trace)] == [1, None, 0, None, 1, 1]
    assert rows(trace)[0][1].startswith("treadle.")


def test_limits_of_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match="size 0: expected a positive number of bytes"):
        emit_chakra(odd_program(), 0)
    assert writer_module.MAX_NODES == 10000000
    monkeypatch.setattr(writer_module, "MAX_NODES", 8)
    assert len(emit_chakra(odd_program(), 5)) == 3
    monkeypatch.setattr(writer_module, "MAX_NODES", 7)
    with pytest.raises(ScheduleError, match="Chakra: rank 0 needs more than 7 nodes"):
        emit_chakra(odd_program(), 5)
    lone = Operation(OperationKind.RECEIVE, 0, 1, peer=0)
    program = program_from_operations(
        CollectiveKind.BROADCAST, [[], [lone]], n_chunks=1, shard_offset=[0, 1, 1], root=0
    )
    with pytest.raises(ScheduleError, match="Chakra: operation 0 receives what nobody sends"):
        emit_chakra(program, 4)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**14 - 1, b"\xff\x7f"),
        (2**14, b"\x80\x80\x01"),
    ],
)
def test_lengths_are_written_seven_bits_at_a_time(value: int, data: bytes) -> None:
    assert writer_module._varint(value) == data


def trace(*nodes: dict[str, Any], version: str = "9") -> bytes:
    """A rank's file of such nodes."""
    found = [length_delimited(schema()["GlobalMetadata"](version=version))]
    for one in nodes:
        given = dict(one)
        node = schema()["Node"](id=given.pop("id"), type=given.pop("type"))
        node.data_deps.extend(given.pop("data", ()))
        node.ctrl_deps.extend(given.pop("ctrl", ()))
        for key, value in given.items():
            kind = "int64_val" if key in ("tensor_size", "comm_size") else "int32_val"
            node.attr.add(name=key, **{kind: value})
        found.append(length_delimited(node))
    return b"".join(found)


def sends(number: int, source: int, target: int, tag: int = 0, size: int = 9, **more: Any) -> dict[str, Any]:
    """A node that sends, or with its type 6 one that receives."""
    ends = {"comm_src": source, "comm_dst": target, "comm_tag": tag, "comm_size": size}
    return {"id": number, "type": 5, **ends, **more}


def test_nodes_are_read_with_both_kinds_of_dependences() -> None:
    data = trace(
        {"id": 7, "type": 4, "tensor_size": 0, "data": (3,), "ctrl": (5, 2)},
        sends(3, 0, 2, 4, 11, type=6),
        sends(2, 1, 0, 0, 0),
    )
    assert parse_chakra(data) == [
        TraceNode(7, "COMP", (3, 5, 2), 0),
        TraceNode(3, "RECEIVE", (), 11, 0, 2, 4),
        TraceNode(2, "SEND", (), 0, 1, 0, 0),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty, expected metadata first"),
        (trace(version=""), "no version in the metadata"),
        (trace({"id": 0, "type": 7}), "node 0: type 7 is not known here"),
        (trace({"id": 0, "type": 3}), "node 0: type 3 is not known here"),
        (trace({"id": 4, "type": 4, "tensor_size": 1}, sends(4, 0, 1)), "node 1: number 4 is used twice"),
        (trace({"id": 4, "type": 4}), "node 0: lacks tensor_size"),
        (trace({"id": 4, "type": 4, "tensor_size": -1}), "node 0: tensor_size=-1: expected at least 0"),
        (trace({"id": 4, "type": 5, "comm_src": 0, "comm_dst": 1}), "node 0: lacks comm_tag"),
        (trace(sends(1, 0, -1)), "node 0: comm_dst=-1: expected at least 0"),
        (b"\x80", "byte 1: a length is cut off or too long"),
        (b"\x80\x80\x80\x80\x80\x01", "byte 5: a length is cut off or too long"),
        (b"\x02\x0a", "byte 1: a message of 2 bytes does not fit"),
        (b"\x02\x0a\x05", "no GlobalMetadata ("),
    ],
)
def test_one_fault_is_refused_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_chakra(data, source="file")
    assert str(caught.value).startswith(f"file: {message}")


def test_limits_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    data = trace({"id": 4, "type": 4, "tensor_size": 1}, {"id": 5, "type": 4, "tensor_size": 1})
    largest = max(map(len, messages(data)))
    for name, value, message in (
        ("MAX_BYTES", len(data), f"{len(data)} bytes, expected at most {len(data) - 1}"),
        ("_MAX_MESSAGE", largest, f"a message of {largest} bytes does not fit"),
        ("_MAX_NODES", 2, "more than 1 messages"),
    ):
        monkeypatch.setattr(judge_module, name, value)
        assert len(parse_chakra(data)) == 2
        monkeypatch.setattr(judge_module, name, value - 1)
        with pytest.raises(FormatError, match=message):
            parse_chakra(data)
        monkeypatch.undo()
    assert (judge_module._MAX_NODES, judge_module._MAX_MESSAGE) == (10000000, 16777216)


def test_faults_of_messages_are_told() -> None:
    def found(*traces: bytes) -> tuple[str, ...]:
        return interpret_chakra(traces).violations

    receive = sends(0, 0, 1, type=6)
    assert found(trace(sends(0, 0, 1)), trace(receive)) == ()
    assert found(trace(sends(8, 1, 0)), trace(receive)) == (
        "rank 0: node 8 is between 1 and 0",
        "message (1, 0, 0) of 9 bytes: 1 without a counterpart",
        "message (0, 1, 0) of 9 bytes: 1 without a counterpart",
    )
    assert found(trace(), trace(sends(6, 1, 0, type=6)))[0] == "rank 1: node 6 is between 1 and 0"
    # two ranks have no rank 3, which 0 + 3 < 4 would let pass
    assert found(trace(sends(0, 0, 4)), trace())[0] == "rank 0: node 0 is between 0 and 4"
    twice = (trace(sends(0, 0, 1), sends(1, 0, 1)), trace(receive, {**receive, "id": 1}))
    assert found(*twice) == ("a tag is used twice between two ranks",)
    assert found(trace(sends(0, 0, 1, size=8)), trace(receive)) == (
        "message (0, 1, 0) of 8 bytes: 1 without a counterpart",
        "message (0, 1, 0) of 9 bytes: 1 without a counterpart",
    )
    many = trace(*(sends(number, 0, 1, number) for number in range(150)))
    assert len(found(many, trace())) == 100


def test_nodes_that_never_start_are_told() -> None:
    """Rank 1's receive waits for its own later node, so rank 0's second receive waits for ever."""
    first = trace(sends(0, 0, 1), sends(5, 1, 0, type=6), sends(6, 0, 1, 1, data=(5,)))
    second = trace(
        sends(2, 0, 1, type=6, data=(2,)),
        sends(3, 1, 0, data=(2, 2)),
        sends(4, 0, 1, 1, type=6),
    )
    found = interpret_chakra([first, second])
    assert found.violations == ("rank 0: node 5 never starts", "rank 1: node 2 never starts")
    assert interpret_chakra([first, trace(sends(2, 0, 1, type=6), *BEHIND)]).violations == ()
    unknown = trace(sends(2, 0, 1, type=6, ctrl=(77,)), *BEHIND)
    assert interpret_chakra([first, unknown]).violations[1:] == ("rank 1: node 2 never starts",)


BEHIND = (sends(3, 1, 0, data=(2, 2)), sends(4, 0, 1, 1, type=6))


def test_the_judge_plays_all_or_reads_one() -> None:
    traces = emit_chakra(odd_program(), 1000)
    found = interpret(traces, Terms())
    assert (found.check, found.n_ranks, found.is_part) == (Check.EXECUTED, 3, False)
    assert found.counts == (("node", 13), ("message", 5), ("file", 3))
    part = interpret(traces[1:2], Terms(rank=1))
    assert (part.check, part.counts, part.n_ranks) == (Check.PARSED, (("node", 6),), 1)
    assert (part.is_part, part.detail) == (True, ", rank 1 alone")


def test_every_node_of_a_step_is_written() -> None:
    nodes = [
        StepNode("forward", 1.5e-6, ()),
        StepNode("gather", 0.0, (0, 0), CollectiveKind.ALLGATHER, 77, "rows"),
        StepNode("hand on", 0.0, (1, 0), size_bytes=5, source=3, target=0, tag=2),
        StepNode("take", 0.0, (), size_bytes=6, source=0, target=3, tag=9),
    ]
    data = emit_step_trace(3, nodes)
    assert [
        (number, name, kind, waits, sorted(attributes.items()))
        for number, name, kind, waits, attributes in rows(data)
    ] == [
        (0, "forward", 4, [], sorted(compute(0, 0).items())),
        (
            1,
            "gather",
            7,
            [0],
            sorted({"is_cpu_op": False, "comm_size": 77, "comm_type": 2, "pg_name": "rows"}.items()),
        ),
        (2, "hand on", 5, [0, 1], sorted(message(5, 3, 0, 2).items())),
        (3, "take", 6, [], sorted(message(6, 0, 3, 9).items())),
    ]
    assert schema()["Node"].FromString(messages(data)[1]).duration_micros == 2
    metadata = schema()["GlobalMetadata"].FromString(messages(data)[0])
    assert (metadata.version, metadata.attr[0].name, metadata.attr[0].string_val) == (
        "0.0.4",
        "schema",
        "symbolic",
    )


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("allreduce", 0),
        ("reduce", 1),
        ("allgather", 2),
        ("broadcast", 5),
        ("alltoall", 6),
        ("reduce-scatter", 7),
    ],
)
def test_collectives_have_the_schemas_numbers(kind: str, number: int) -> None:
    (row,) = rows(emit_step_trace(0, [StepNode("c", 0, (), CollectiveKind(kind))]))
    assert (row[2], row[4]["comm_type"], row[4]["pg_name"]) == (7, number, 0)


def test_limits_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    one = StepNode("a", 0, ())
    for wait in (-1, 1, 2):
        with pytest.raises(ScheduleError, match="Chakra: node 1 of rank 4 waits for a later one"):
            emit_step_trace(4, [one, StepNode("b", 0, (wait,))])
    monkeypatch.setattr(writer_module, "MAX_NODES", 2)
    assert len(rows(emit_step_trace(4, [one, one]))) == 2
    with pytest.raises(ScheduleError, match="Chakra: rank 4 needs more than 2 nodes"):
        emit_step_trace(4, [one] * 3)
    # at the first rank a message from rank 0 is its own
    kinds = [rows(emit_step_trace(rank, [StepNode("m", 0, (), source=0, target=1)]))[0][2] for rank in (0, 1)]
    assert kinds == [5, 6]
