"""fairseq's own generator on the verifier of a translator."""

from collections.abc import Callable

from fairseq.tasks import FairseqTask

from .flags import split_flags
from .translator import SpeculativeTranslator


def stock_translator(
    translator: SpeculativeTranslator, beam: int
) -> Callable[[str], tuple[str, int]]:
    """What translates a text as one with stock ``SequenceGenerator``: the text of the best
    hypothesis, and its tokens with the one that ends it. ``translator``: made with
    ``keep_weights``."""
    decodings, decoding = translator._open()
    loaded, codec = decodings.loaded, decodings.codec
    _, args = split_flags("greedy", None, {"beam": beam})
    generator = FairseqTask.build_generator(loaded.task, loaded.models, args)

    def translate(text: str) -> tuple[str, int]:
        sample, first = decoding.given(translator.encode([text]))
        ids = generator.generate(loaded.models, sample, **first)[0][0]["tokens"].tolist()
        return codec.join(codec.words(ids)), len(ids)

    return translate
