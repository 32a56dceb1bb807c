"""fairseq's own generator, with the flags that the strategies of a race have."""

from collections.abc import Callable
from typing import NamedTuple

from fairseq.tasks import FairseqTask

from fairseq_specdec.hub.decoding import Decoding, Decodings, checked


class StockTranslation(NamedTuple):
    """fairseq's best hypothesis."""

    text: str
    tokens: int  # with the one that ends it


StockTranslator = Callable[[str], StockTranslation]


def stock_translator(decodings: Decodings, decoding: Decoding, beam: int) -> StockTranslator:
    """What translates a text with stock ``SequenceGenerator``.

    Args:
        decodings: whose models still have their weights.
        decoding: of any strategy, for what a text becomes.
    """
    loaded, codec = decodings.loaded, decodings.codec
    _, args = checked("greedy", None, {"beam": beam})
    generator = FairseqTask.build_generator(loaded.task, loaded.models, args)

    def translate(text: str) -> StockTranslation:
        sample, first = decoding.given([codec.encode(text)])
        ids = generator.generate(loaded.models, sample, **first)[0][0]["tokens"].tolist()
        return StockTranslation(codec.join(codec.words(ids)), len(ids))

    return translate
