"""The bytes between voters: what is encoded comes back, and nothing else is accepted."""

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.consensus.ports import TERM_MAX, Index, Term
from quorate.consensus.transport import codec
from quorate.consensus.transport.codec import (
    Ack,
    Alive,
    AppendEntries,
    Hello,
    HelloMessage,
    Message,
    PreVote,
    PreVoteAnswer,
    Proof,
    ReadProbe,
    ReadProbeAnswer,
    Refused,
    RejoinAsk,
    RejoinIndex,
    RejoinRead,
    RejoinTerm,
    RequestVote,
    SnapshotAck,
    SnapshotBegin,
    SnapshotChunk,
    TermNotice,
    TimeoutNow,
    VoteGranted,
    Welcome,
)
from quorate.errors import PeerError, UsageError

NUMBER = st.integers(0, codec.NUMBER_MAX)
TERM = st.integers(0, TERM_MAX)
TERMS = ("term", "last_term", "index_term", "prev_term")
NUMBERS_ONLY: list[type[Message]] = [
    Ack, Alive, PreVote, PreVoteAnswer, ReadProbe, ReadProbeAnswer, RejoinAsk, RejoinIndex, RejoinRead, RejoinTerm,
    RequestVote, SnapshotAck, SnapshotBegin, TermNotice, TimeoutNow, VoteGranted,
]  # fmt: skip


def of(cls: type[Message]) -> st.SearchStrategy[Message]:
    """Any value of a message that is only numbers."""
    fields: list[st.SearchStrategy[object]] = []
    for name in cls.__struct_fields__:
        if name == "status":
            fields.append(st.integers(0, 2))
        elif name in TERMS:
            fields.append(TERM)
        elif name in codec._DIRECTORIES:
            fields.append(st.binary(min_size=16, max_size=16))
        else:
            fields.append(st.booleans() if cls.__annotations__[name] is bool else NUMBER)
    return st.builds(cls, *fields)


@st.composite
def appends(draw: st.DrawFn) -> AppendEntries:
    """Any AppendEntries: its entries follow ``prev_index``, and their terms the one there."""
    prev = draw(st.integers(0, 1 << 40))
    blobs = draw(st.lists(st.binary(max_size=40).filter(lambda entry: len(entry) != 1), max_size=5))
    prev_term, *terms, term = (Term(number) for number in sorted(draw(TERM) for _ in range(len(blobs) + 2)))
    entries = tuple(
        (Index(prev + 1 + i), of_term, blob) for i, (of_term, blob) in enumerate(zip(terms, blobs, strict=True))
    )
    return AppendEntries(term, draw(NUMBER), Index(prev), prev_term, Index(draw(NUMBER)), entries)


CHUNKS = st.builds(SnapshotChunk, TERM, NUMBER, NUMBER, st.integers(0, 1), st.booleans(), st.binary(max_size=60))
MESSAGES = st.one_of(appends(), CHUNKS, *[of(cls) for cls in NUMBERS_ONLY])
HELLOS: st.SearchStrategy[HelloMessage] = st.one_of(
    st.builds(
        Hello, st.text(max_size=40), NUMBER, NUMBER, st.binary(min_size=16, max_size=16),
        st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.binary(min_size=32, max_size=32),
    ),
    st.builds(Proof, st.binary(min_size=32, max_size=32)),
    st.sampled_from([Refused("cluster key"), Refused("directory"), Welcome()]),
)  # fmt: skip


@given(MESSAGES)
def test_every_message_comes_back_equal(message: Message) -> None:
    """Decoding an encoded message gives the message."""
    assert codec.decode(codec.encode(message)) == message


@given(HELLOS)
def test_every_hello_comes_back_equal(message: HelloMessage) -> None:
    """Decoding an encoded hello part gives the part."""
    assert codec.decode_hello(codec.encode_hello(message)) == message


def decodes(frame: bytes) -> Message | None:
    """The message, or None for a PeerError; anything else propagates."""
    try:
        return codec.decode(frame)
    except PeerError:
        return None


@given(st.binary(max_size=200))
def test_random_bytes_raise_peer_error_only(frame: bytes) -> None:
    """Whatever arrives is a message or a PeerError, and what is a message encodes again."""
    message = decodes(frame)
    if message is not None:
        assert codec.decode(codec.encode(message)) == message
    try:
        codec.decode_hello(frame)
    except PeerError:
        return


@given(MESSAGES, st.data())
def test_damaged_frames_raise_peer_error_only(message: Message, data: st.DataObject) -> None:
    """A frame cut short, grown or with a byte changed is a PeerError or another well-formed message, never a crash."""
    frame = bytearray(codec.encode(message))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    decodes(bytes(frame))
    decodes(bytes(frame[:at]))
    decodes(bytes(frame) + b"\0")


@given(appends().filter(lambda message: any(len(entry) > 1 for *_, entry in message.entries)), st.data())
def test_a_changed_entry_fails_its_crc(message: AppendEntries, data: st.DataObject) -> None:
    """A bit flipped inside an entry's bytes is noticed, so that it is never journaled."""
    frame = bytearray(codec.encode(message))
    victim = data.draw(st.sampled_from([entry for *_, entry in message.entries if len(entry) > 1]))
    at = bytes(frame).rindex(victim)
    frame[at] ^= 1 << data.draw(st.integers(0, 7))
    assert decodes(bytes(frame)) is None


@given(CHUNKS.filter(lambda chunk: chunk.payload), st.data())
def test_a_changed_chunk_fails_its_crc(chunk: SnapshotChunk, data: st.DataObject) -> None:
    """A bit flipped inside a snapshot chunk is noticed."""
    frame = bytearray(codec.encode(chunk))
    frame[data.draw(st.integers(len(frame) - len(chunk.payload), len(frame) - 1))] ^= 0x10
    assert decodes(bytes(frame)) is None


def test_the_crc_covers_the_term() -> None:
    """The same entry under another term is another entry: its CRC does not fit."""
    frame = bytearray(
        codec.encode(AppendEntries(Term(2), 1, Index(1), Term(0), Index(1), ((Index(2), Term(2), b"ab"),)))
    )
    at = 45 + 7  # The lowest byte of the entry's term, after the fixed head.
    assert frame[at] == 2
    frame[at] = 1
    with pytest.raises(PeerError, match="CRC"):
        codec.decode(bytes(frame))


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("empty", b""),
        ("unknown type", b"\x3f"),
        ("app frame", codec.app_frame(64, b"payload")),
        ("hello", codec.encode_hello(Welcome())),
        ("short ack", b"\x02" + bytes(10)),
        ("too many entries", b"\x01" + bytes(40) + (codec.ENTRIES_MAX + 1).to_bytes(4, "big")),
        ("entry of one byte", b"\x01" + bytes(43) + b"\x01" + bytes(8) + b"\0\0\0\x01" + bytes(4) + b"x"),
        ("entry longer than the frame", b"\x01" + bytes(43) + b"\x01" + bytes(8) + b"\0\0\1\0" + bytes(4)),
        ("chunk of unknown kind", b"\x11" + bytes(24) + b"\2\0" + zlib.crc32(b"").to_bytes(4, "big")),
    ],
)
def test_malformed_frames_are_peer_errors(name: str, frame: bytes) -> None:
    """Each kind of malformed consensus frame is refused."""
    with pytest.raises(PeerError):
        codec.decode(frame)


@pytest.mark.parametrize(
    ("prev_term", "terms", "wrong"),
    [
        (3, (2,), "entry 9 of term 2, behind term 3, from a leader of term 5"),
        (3, (3, 5, 4), "entry 11 of term 4, behind term 5"),
        (3, (4, 6), "entry 10 of term 6, behind term 4"),
    ],
)
def test_entries_whose_terms_fall_or_pass_the_leader_s_are_refused(
    prev_term: int, terms: tuple[int, ...], wrong: str
) -> None:
    """No log holds such entries: it is the link that suffers, before the journal is asked to take them."""
    entries = tuple((Index(9 + place), Term(term), b"ab") for place, term in enumerate(terms))
    message = AppendEntries(Term(5), 2, Index(8), Term(prev_term), Index(8), entries)
    with pytest.raises(PeerError, match=wrong):
        codec.decode(codec.encode(message))


def beyond() -> list[tuple[str, bytes]]:
    """Every message, and in it every term, as one more than a log can hold; every other number as too large."""
    entry, late = (Index(9), Term(1), b"ab"), (Index(9), Term(TERM_MAX + 1), b"ab")
    made: list[Message] = [
        AppendEntries(Term(1), 2, Index(8), Term(1), Index(8), (entry,)),
        SnapshotChunk(Term(1), 2, 3, 0, last=True, payload=b"rows"),
        *[cls(*[1] * len(codec._limits(cls))) for cls in codec._PACKERS],
    ]
    frames = [("an entry", codec.encode(AppendEntries(TERM_MAX, 2, Index(8), Term(1), Index(8), (late,))))]
    for message in made:
        for name in message.__struct_fields__:
            if name in TERMS:
                wrong = {name: TERM_MAX + 1}
            elif message.__class__.__annotations__[name] in (int, Index):
                wrong = {name: codec.NUMBER_MAX + 1}
            else:
                continue
            if (message.__class__, name) not in ((SnapshotChunk, "kind"), (SnapshotAck, "status")):
                changed = msgspec.structs.replace(message, **wrong)
                frames.append((f"{type(message).__name__}.{name}", codec.encode(changed)))
    return frames


BEYOND = beyond()


@pytest.mark.parametrize(("name", "frame"), BEYOND, ids=[name for name, _ in BEYOND])
def test_a_number_that_no_log_can_hold_is_refused_in_every_message(name: str, frame: bytes) -> None:
    """A batch says its term as an int32: no message brings a later one in, nor a number near the end of 64 bits."""
    with pytest.raises(PeerError):
        codec.decode(frame)


def test_the_last_term_is_still_a_term() -> None:
    """The greatest int32 is let in, everywhere."""
    for message in (TermNotice(TERM_MAX), RequestVote(TERM_MAX, 1, Index(1), TERM_MAX, handover=False)):
        assert codec.decode(codec.encode(message)) == message


def test_app_frames_are_told_apart() -> None:
    """The controller's frames have types from 64 on; nothing else may pretend to be one."""
    assert codec.is_app_frame(codec.app_frame(64, b""))
    assert not codec.is_app_frame(codec.encode(Alive(Term(1))))
    assert not codec.is_app_frame(b"")
    with pytest.raises(UsageError):
        codec.app_frame(63, b"")


def test_entries_encoded_once_serve_every_follower() -> None:
    """A frame put together from separately encoded entries equals the frame of the whole message."""
    entries = ((Index(5), Term(3), b"first"), (Index(6), Term(3), b""))
    message = AppendEntries(Term(3), 9, Index(4), Term(2), Index(4), entries)
    assert codec.append_frame(message, codec.encode_entries(entries), 2) == codec.encode(message)


def test_a_hello_that_does_not_fit_is_our_mistake() -> None:
    """Encoding an impossible hello is a UsageError, not a broken frame."""
    with pytest.raises(UsageError):
        codec.encode_hello(Hello("c" * 300, 1, 2, bytes(16), 1, 1, bytes(32)))  # type: ignore[arg-type]
