"""Which of the served languages a text is in, by py3langid."""

import functools
from typing import Any, Dict, Optional, Sequence, Tuple

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from fairseq_specdec.hub.language_codes import matching

# The second is its name before 0.4, which needs Python 3.10.
_NAMES = ("from_model_file", "from_pickled_model")
_load = next(filter(None, (getattr(LanguageIdentifier, name, None) for name in _NAMES)))


@functools.lru_cache(maxsize=1)
def _identifier() -> Any:
    return _load(MODEL_FILE, norm_probs=True)


@functools.lru_cache(maxsize=256)
def _labels(codes: Tuple[str, ...]) -> Dict[str, str]:
    """The library's languages that mean one of some codes, each with that code."""
    _identifier().set_languages()
    meant = {label: matching(label, codes) for label in _identifier().nb_classes}
    return {label: found[0] for label, found in meant.items() if found}


def likeliest(texts: Sequence[str], codes: Sequence[str]) -> Optional[Tuple[str, int]]:
    """The language of some texts together, with how likely it is in percent. ``codes``: to choose
    from; None where the library has none of them. All calls are of one thread."""
    if len(codes) == 1:
        return codes[0], 100
    labels = _labels(tuple(codes))
    if not labels:
        return None
    _identifier().set_languages(list(labels))
    label, chance = _identifier().classify("\n".join(texts))
    return labels[label], round(100 * float(chance))
