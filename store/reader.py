"""One reader: a process that reads, hashes and compresses files for another one, on a core of its own.

Owns what goes over the two pipes. A request is the paths of some files, its answer what became of each. Both ends run
the same interpreter, so that `marshal` can carry them. Who starts readers, and when, is left to `store.intake`.
"""

from __future__ import annotations

import gc
import marshal
import struct
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from store.capture import LeftOut, Limits, Reason, read_path
from store.entries import Entry, Node, Oid
from store.pack import BLOB, Packed, pack_object

if TYPE_CHECKING:
    from store.pack import PackWriter

Answer = tuple[bytes, int | None, bytes, bytes, int] | str | None
"""A file's mode and permission bits, and its id, data and checksum as in a pack; or why it is left out; or nothing when
it is gone."""

_LENGTH = struct.Struct(">Q")

COMMAND = "import sys; sys.path[:] = sys.argv[1:]; from store.reader import serve; serve()"
"""What Python is to run for a reader; its arguments are the places of modules."""


def serve() -> None:
    """Answer requests on standard input until it ends, which it does when the other process is gone."""
    gc.disable()  # nothing here makes cycles, and looking for them costs a tenth of the time
    root, max_file_bytes = receive(sys.stdin.buffer)
    limits = Limits(max_file_bytes=max_file_bytes)
    with suppress(EOFError, BrokenPipeError):
        while True:
            send(sys.stdout.buffer, [_read(root, path, limits) for path in receive(sys.stdin.buffer)])


def _read(root: bytes, path: bytes, limits: Limits) -> Answer:
    found = read_path(root, path, limits, is_regular=True)
    if found is None or isinstance(found, LeftOut):
        return None if found is None else found.reason.value
    mode, bits, content = found
    packed = pack_object(BLOB, content)
    return mode, bits, packed.oid, packed.data, packed.checksum


def send(pipe: IO[bytes], message: Any) -> None:  # noqa: ANN401 - whatever `marshal` takes
    """Send one message."""
    raw = marshal.dumps(message)
    pipe.write(_LENGTH.pack(len(raw)) + raw)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:  # noqa: ANN401 - what was sent
    """Return the next message.

    Raises:
        EOFError: There is none, or only a part of it.
    """
    header = pipe.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError
    length = _LENGTH.unpack(header)[0]
    raw = pipe.read(length)
    if len(raw) < length:
        raise EOFError
    return marshal.loads(raw)  # noqa: S302 - from a process that we started, by a pipe that nobody else has


def take_in(pack: PackWriter, path: bytes, answer: Answer) -> Node | LeftOut | None:
    """Put what a reader answered about one file into a pack, and return it as `capture_path` would."""
    if answer is None:
        return None
    if isinstance(answer, str):
        return LeftOut(path, Reason(answer))
    mode, bits, oid, data, checksum = answer
    pack.add_packed(Packed(oid, data, checksum))
    return Node(Entry(mode, Oid(oid)), bits)
