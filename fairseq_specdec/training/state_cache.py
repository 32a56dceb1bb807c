"""A frozen verifier's states of known sentences, kept on disk in half precision.

The states that an attached drafter reads do not change while it is trained. They are computed when
a sentence is first met and read from then on, also by a later run: a run appends to a file of its
own and reads those of the runs before. A sentence is known by its words, not by its number, so that
another order of the data, another split or another corpus finds what is there and nothing else.

A folder has a subfolder for each verifier (a digest of its weights and of the layers read). Each
run's file has an index: records of 40 bytes, written after the states that they describe. What a
record describes is checked (length, CRC-32) whenever it is read; what does not fit is computed
anew.
"""

import hashlib
import logging
import os
import shutil
import struct
import uuid
import zlib
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fairseq_specdec.errors import UsageError

logger = logging.getLogger(__name__)

VERSION = b"1"
RECORD = struct.Struct("<16sQIIII")  # digest, offset, source rows, target rows, CRC-32, its own
LEAST_FREE = 1 << 30  # bytes that stay free on the disk

Rows = tuple[Any, Any]  # float16 [S, C] and [T, D]


class _Place(NamedTuple):
    stream: BinaryIO
    offset: int
    source: int
    target: int
    checksum: int


def model_digest(model: Any, more: str) -> str:
    """A digest of a model's weights and of ``more``, as 32 hexadecimal digits."""
    digest = hashlib.blake2b(VERSION + more.encode(), digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().float().numpy().tobytes())
    return digest.hexdigest()


def sentence_key(*parts: Any) -> bytes:
    """16 bytes for a sentence: arrays of its words (or sounds), without padding."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(struct.pack("<Q", part.nbytes))
        digest.update(part.tobytes())
    return digest.digest()


class StateCache:
    """States of sentences by :func:`sentence_key`. ``digest``: of the verifier, from
    :func:`model_digest`. ``widths``: C of the encoder's output and D of the decoder's states."""

    def __init__(self, folder: str, digest: str, widths: tuple[int, int]):
        self.folder = os.path.join(folder, digest)
        self.widths = widths
        self._places: dict[bytes, _Place] = {}
        self._own: list[BinaryIO] | None = None
        self._full = False
        try:
            os.makedirs(self.folder, exist_ok=True)
            names = sorted(os.listdir(self.folder))
            for name in names:
                if name.endswith(".index"):
                    self._read_index(os.path.join(self.folder, name[: -len(".index")]))
        except OSError as error:
            raise UsageError(f"--cache-verifier-states {folder}", error.strerror) from error
        source, target = (2 * width for width in widths)
        logger.info(
            "--cache-verifier-states %s: %d sentences are there; a source token takes %s bytes, "
            "a target token %s; %.1f GiB are free", self.folder, len(self._places), source, target,
            shutil.disk_usage(self.folder).free / 2**30,
        )  # fmt: skip

    def _read_index(self, stem: str) -> None:
        if not os.path.exists(f"{stem}.states"):
            return
        stream = open(f"{stem}.states", "rb", buffering=0)  # noqa: SIM115 - read as long as we are
        end = os.fstat(stream.fileno()).st_size
        with open(f"{stem}.index", "rb") as index:
            records = index.read()
        whole = len(records) - len(records) % RECORD.size  # the last one may have been cut off
        for at in range(0, whole, RECORD.size):
            record = records[at : at + RECORD.size]
            key, offset, source, target, checksum, own = RECORD.unpack(record)
            fits = offset + self._size(source, target) <= end
            if fits and own == zlib.crc32(record[:-4]):
                self._places[key] = _Place(stream, offset, source, target, checksum)

    def _size(self, source: int, target: int) -> int:
        """Bytes of a sentence's states."""
        return 2 * (source * self.widths[0] + target * self.widths[1])

    def __len__(self) -> int:
        return len(self._places)

    def find(self, key: bytes) -> Rows | None:
        """A sentence's states, float16 [S, C] and [T, D], or None."""
        place = self._places.get(key)
        if place is None:
            return None
        size = self._size(place.source, place.target)
        data = os.pread(place.stream.fileno(), size, place.offset)
        if len(data) != size or zlib.crc32(data) != place.checksum:
            logger.warning(
                "--cache-verifier-states %s: damaged states are computed anew", self.folder
            )
            del self._places[key]
            return None
        numbers = np.frombuffer(data, "<f2").astype(np.float16)
        first = place.source * self.widths[0]
        source = numbers[:first].reshape(place.source, -1)
        return source, numbers[first:].reshape(place.target, -1)

    def add(self, key: bytes, source: Any, target: Any) -> None:
        """Keep a sentence's states, float16 [S, C] and [T, D], while the disk has room."""
        if key in self._places or self._full:
            return
        data = source.astype("<f2").tobytes() + target.astype("<f2").tobytes()
        if shutil.disk_usage(self.folder).free < LEAST_FREE + len(data):
            self._full = True
            logger.warning(
                "--cache-verifier-states %s: less than 1 GiB is free; the states of further "
                "sentences are computed in every epoch", self.folder
            )  # fmt: skip
            return
        states, index = self._own_files()
        offset, checksum = states.seek(0, os.SEEK_END), zlib.crc32(data)
        states.write(data)
        states.flush()
        record = RECORD.pack(key, offset, len(source), len(target), checksum, 0)[:-4]
        index.write(record + struct.pack("<I", zlib.crc32(record)))
        index.flush()
        self._places[key] = _Place(states, offset, len(source), len(target), checksum)

    def _own_files(self) -> list[BinaryIO]:
        """This process's states and index, made when they are first needed."""
        if self._own is None:
            stem = os.path.join(self.folder, uuid.uuid4().hex)
            self._own = [open(f"{stem}.{kind}", "xb+") for kind in ("states", "index")]  # noqa: SIM115
        return self._own
