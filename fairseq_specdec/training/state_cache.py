"""A frozen verifier's states of known sentences, kept on disk in half precision.

The states that an attached drafter reads do not change while it is trained. They are computed when
a sentence is first met and read from then on, also by a later run: a run appends to a file of its
own and reads those of the runs before. A sentence is known by its words, not by its number, so that
another order of the data, another split or another corpus finds what is there and nothing else.

A folder has a subfolder for each verifier (a digest of its weights and of the layers read). Each
run's file has an index: records of 36 bytes, written after the states that they describe. States
and record are checked (length, CRC-32) when they are read; what does not fit is computed anew.
"""

import glob
import hashlib
import logging
import os
import shutil
import struct
import uuid
import zlib
from typing import Any, BinaryIO

import numpy as np

from fairseq_specdec.errors import UsageError

logger = logging.getLogger(__name__)

VERSION = b"2"
RECORD = struct.Struct("<16sQIII")  # key, offset, source rows, target rows, CRC-32
LEAST_FREE = 1 << 30  # bytes that stay free on the disk

Rows = tuple[Any, Any]  # float16 [S, C] and [T, D]


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
        self._places: dict[bytes, tuple[BinaryIO, bytes]] = {}  # file and record of each sentence
        self._own: tuple[BinaryIO, BinaryIO] | None = None  # this run's states and index
        self._full = False
        try:
            os.makedirs(self.folder, exist_ok=True)
            for index in sorted(glob.glob(os.path.join(glob.escape(self.folder), "*.index"))):
                with open(index, "rb") as records:
                    stream = open(index[: -len("index")] + "states", "rb", buffering=0)  # noqa: SIM115
                    while len(record := records.read(RECORD.size)) == RECORD.size:
                        self._places[record[:16]] = stream, record
            free = shutil.disk_usage(self.folder).free
        except OSError as error:
            raise UsageError(f"--cache-verifier-states {folder}", error.strerror) from error
        logger.info(
            "--cache-verifier-states %s: %d sentences are there; a source token takes %s bytes, "
            "a target token %s; %.1f GiB are free",
            self.folder, len(self), *(2 * width for width in widths), free / 2**30,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._places)

    def find(self, key: bytes) -> Rows | None:
        """A sentence's states, float16 [S, C] and [T, D], or None."""
        if key not in self._places:
            return None
        stream, record = self._places[key]
        _, offset, source, target, checksum = RECORD.unpack(record)
        first, second = source * self.widths[0], target * self.widths[1]
        data = b""
        if offset + 2 * (first + second) <= os.fstat(stream.fileno()).st_size:
            data = os.pread(stream.fileno(), 2 * (first + second), offset)
        if zlib.crc32(data, zlib.crc32(record[:-4])) != checksum:
            logger.warning(
                "--cache-verifier-states %s: damaged states are computed anew", self.folder
            )
            del self._places[key]
            return None
        numbers = np.frombuffer(data, "<f2").astype(np.float16)
        return numbers[:first].reshape(source, -1), numbers[first:].reshape(target, -1)

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
        if self._own is None:  # made when it is first needed
            stem = os.path.join(self.folder, uuid.uuid4().hex)
            self._own = open(f"{stem}.states", "xb+"), open(f"{stem}.index", "xb+")  # noqa: SIM115
        states, index = self._own
        record = RECORD.pack(key, states.seek(0, os.SEEK_END), len(source), len(target), 0)[:-4]
        record += struct.pack("<I", zlib.crc32(data, zlib.crc32(record)))
        for stream, content in ((states, data), (index, record)):
            stream.write(content)
            stream.flush()
        self._places[key] = states, record
