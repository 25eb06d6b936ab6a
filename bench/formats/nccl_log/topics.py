"""Who takes a message, by its first word.

In: the message behind "NCCL INFO", its thread and line. Out: notes on communicators, events,
tuning and processes. A word that nobody knows is looked at once and remembered.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from bench.formats.nccl_log import edges
from bench.formats.nccl_log.events import is_return
from bench.formats.nccl_log.heads import Head
from bench.formats.nccl_log.notes import Notes, Stream
from bench.formats.nccl_log.processes import TOPICS, Topic

Handler = Callable[[Notes, Stream, bytes, int], None]

_PLACE = re.compile(rb"\S{0,400}[\w+-]\.(?:cc|cpp|cu|h|hpp):\d{1,6}$")
_SETTING = re.compile(rb"(?:NCCL|RCCL|HSA|UCX|FI|OFI)_\w{1,60}$")
_CALL = re.compile(rb"(?:nccl|rccl|Comm)\w{2,60}$")
_COLLECTIVE = re.compile(rb"[A-Z][A-Za-z]{2,30}:?$")
_PLUGIN = re.compile(rb"NET/\w{2,30}:?$")


def _edge(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    """ "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC" or "Channel 00/02 : 0 1 2 3"."""
    if b" comm 0x" in text:
        text, tail = edges.split_tail(text)
        if tail is not None:
            bundle = notes.groups.of_pointer(stream.process, stream.device, tail, line)
            if bundle is not None and b" via " in text:
                notes.groups.keep(bundle, text, line)
            return
    bundle = notes.bundle_of(stream, line)
    if b" via " in text:
        notes.groups.keep(bundle, text, line)
    elif (ring := edges.order(text)) is not None:
        bundle.ring(ring)


def _comm(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    if b" comm 0x" in text or text.startswith(b"comm "):
        stream.bundle = notes.groups.announce(
            stream.bundle, stream.process, stream.device, text, line
        )


def _tree(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    notes.bundle_of(stream, line).tree(text.decode("utf-8", "replace"))


def _connected(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    if text.startswith(b"Connected all rings"):
        notes.bundle_of(stream, line).connected(text.decode("utf-8", "replace"))


def _counts(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    if b" coll channels" in text:
        notes.bundle_of(stream, line).counts(text.decode("utf-8", "replace"))
    else:
        notes.tunings.add(stream.process, text)


def _tuning(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    notes.tunings.add(stream.process, text)


def _timed(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    if stream.bundle is not None:
        stream.bundle.timed(text.decode("utf-8", "replace"), line)


def _bootstrap(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    if text.startswith(b"Bootstrap timings"):
        _timed(notes, stream, text, line)
    else:
        stream.process.bootstrapped(text.decode("utf-8", "replace"), line)


def _nvls(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    if text.startswith(b"NVLS comm 0x"):
        notes.bundle_of(stream, line).nvls = True
        stream.process.quote("nvls", text.decode("utf-8", "replace"), line)


def _retry(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    if text.rstrip().endswith(b"retrying") or b", retrying " in text:
        head = Head(stream.speaker)
        notes.events.add(head, text.decode("utf-8", "replace"), line, "INFO")


def _returned(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    message = text.decode("utf-8", "replace")
    if is_return(message):
        notes.events.returned(stream.speaker, message, line)
    else:
        _retry(notes, stream, text, line)


def _setting(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    stream.process.setting(text.decode("utf-8", "replace"), line)


def _plugin(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
    stream.process.plugins(text.decode("utf-8", "replace"), line)


def _topic(take: Topic) -> Handler:
    """A process's own topic, as a handler."""

    def handle(notes: Notes, stream: Stream, text: bytes, line: int) -> None:
        take(stream.process, text.decode("utf-8", "replace"), line)

    return handle


HANDLERS: dict[bytes, Handler | None] = {
    **{word: _topic(take) for word, take in TOPICS.items()},
    b"Channel": _edge, b"Ring": _edge, b"CollNet": _edge,
    b"comm": _comm, b"[Rank": _comm,
    b"Trees": _tree, b"Connected": _connected,
    b"Init": _timed, b"Bootstrap": _bootstrap, b"NVLS": _nvls,
    b"Call": _retry, b"socketPollConnect:": _retry, b"socketStartConnect:": _retry,
}  # fmt: skip


def learn(word: bytes) -> Handler | None:
    """Who takes messages that begin with a word not met before; None: nobody."""
    if _PLACE.match(word):
        return _returned
    if _SETTING.match(word):
        return _setting
    if _PLUGIN.match(word):
        return _plugin
    if _CALL.match(word):
        return _comm
    if word.isdigit():
        return _counts
    if _COLLECTIVE.match(word):  # without the colon: "AllReduce [Symmetric]: 1048576 Bytes -> …"
        return _tuning
    return None
