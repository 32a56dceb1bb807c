"""Texts of requests to translations: limits, the queue, deadlines and clients that leave."""

import asyncio
import concurrent.futures
import contextlib
import itertools
import math
import time
from collections.abc import Iterator
from typing import Any

from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator, Translation
from fairseq_specdec.hub.batching import Parts
from fairseq_specdec.hub.results import joined
from fairseq_specdec.hub.sentences import Split

from .batching import Smallest, smallest_batch
from .bodies import RefusedError
from .clients import Client, GoneError
from .flags import Limits
from .scheduler import FullError, LateError, Scheduler, StoppedError

_NOTHING = Translation("", [], 0.0, 0, [], [], 0)
# Decoded before the first request.
_FIRST = "The quick brown fox jumps over the lazy dog."


class Service:
    """One pair of languages, its queue and its threads.

    Args:
        translator: decodes. Its output for a text must not depend on chance.
        smallest: the smallest batch that pays (default: by the model of what passes take).
    """

    def __init__(
        self,
        translator: SpeculativeTranslator,
        limits: Limits,
        workers: int,
        smallest: Smallest | None = None,
    ) -> None:
        if translator.generator.rule.needs_draft_probabilities:
            raise UsageError("--sampling", "a server gives one answer to a text", "leave it out")
        self.translator = translator
        self.limits = limits
        # What the page offers: strategies to race with their flags, fairseq itself, sentences.
        self.racers: dict[str, dict[str, Any]] = {}
        self.stock = False
        self.examples: list[str] = []
        pace = _pace(translator)  # which also begins to learn how drafts are accepted
        smallest = smallest or smallest_batch(translator, limits.batch)
        self.scheduler = Scheduler(
            translator.translate_encoded, workers, limits.wait, pace, limits.batch, smallest
        )
        self._encoders = concurrent.futures.ThreadPoolExecutor(1, "specdec-serve-encode")

    @property
    def languages(self) -> tuple[str, str]:
        return self.translator.languages

    def close(self) -> None:
        """Answer what was accepted, then end the threads."""
        self.scheduler.stop()
        self._encoders.shutdown()

    def check(self, texts: list[str]) -> list[str]:
        """The texts of a request, if they are not too many and none is too long."""
        limits = self.limits
        if len(texts) > limits.texts:
            raise RefusedError(
                400, f"Invalid request: {len(texts)} texts, at most {limits.texts} are taken"
            )
        longest = max(map(len, texts), default=0)
        if longest > limits.characters:
            raise RefusedError(
                400,
                f"Invalid request: a text has {longest} characters, at most {limits.characters} "
                "are taken",
            )
        return texts

    async def translate(
        self, texts: list[str], client: Client, split: Split | None = None
    ) -> list[Translation]:
        """Translate the texts of one request.

        Args:
            texts: as ``check`` returns them.
            client: who waits.
            split: as for ``SpeculativeTranslator.translate``.

        Raises:
            RefusedError: the queue is full, a text is too long, or there is no answer in time.
            GoneError: the client left.
        """
        with self.refusing(client):
            read = await self.read(texts, client, split)
            rows = [row for parts in read for row in parts.rows if row]
            answers = iter(await _answered(self.scheduler.submit(rows, client.until), client))
        found = [[next(answers) if row else _NOTHING for row in parts.rows] for parts in read]
        return [joined(parts, sentences) for parts, sentences in zip(read, found)]

    async def read(
        self, texts: list[str], client: Client, split: Split | None = None
    ) -> list[Parts]:
        """The sentences of each text, made beside the event loop. Raises FullError or StoppedError:
        before that is done. Raises RefusedError: a sentence is too long."""
        self.scheduler.check(client.until)
        loop = asyncio.get_running_loop()
        read = self.translator.encode_sentences
        try:
            return await loop.run_in_executor(self._encoders, read, texts, split)
        except ValueError:
            longest = self.translator.longest_source
            raise RefusedError(
                400,
                f"Invalid request: the model reads {longest} tokens of a sentence; split the text",
            ) from None

    @contextlib.contextmanager
    def refusing(self, client: Client) -> Iterator[None]:
        """Say by a status why there is no answer. Raises RefusedError: for whatever is raised
        meanwhile, but for ``GoneError``."""
        try:
            yield
        except (GoneError, RefusedError):
            raise
        except FullError as error:
            seconds = max(1, math.ceil(error.seconds - self.limits.wait))
            message = "Slowdown: the queue is full; try again later"
            raise RefusedError(429, message, seconds) from None
        except StoppedError:
            raise RefusedError(503, "the server ends") from None
        except LateError:
            message = f"no answer within {client.seconds:g} s; send less text"
            raise RefusedError(504, message) from None
        except Exception as error:
            raise RefusedError(
                500, f"decoding failed ({type(error).__name__}); the server's log says more"
            ) from None


async def _answered(jobs: list[Any], client: Client) -> list[Translation]:
    """The results, unless the deadline passes or the client leaves first."""
    if not jobs:
        return []
    loop, counted, ended = asyncio.get_running_loop(), itertools.count(1), asyncio.Event()

    def done(job: Any) -> None:
        """In a worker's thread: one event for all, as there may be thousands of sentences."""
        if not job.cancelled() and (job.exception() or next(counted) == len(jobs)):
            loop.call_soon_threadsafe(ended.set)

    try:
        for job in jobs:
            job.add_done_callback(done)
        await client.first(ended.wait())
        for job in jobs:
            if job.done() and job.exception():
                raise job.exception()
        return [job.result() for job in jobs]
    finally:
        for job in jobs:
            job.cancel()


def _pace(translator: SpeculativeTranslator) -> float:
    """Seconds that a source token takes, measured on a second decoding."""
    row = translator.encode([_FIRST])[0]
    for _ in range(2):
        began = time.perf_counter()
        list(translator.translate_encoded([row]))
        seconds = time.perf_counter() - began
    return seconds / len(row)
