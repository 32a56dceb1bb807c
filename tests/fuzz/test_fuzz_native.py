"""Native calls of random small Transformers, with a number that is out of range, or with weights
that are no numbers."""

import argparse
import time

import pytest
import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from native_numbers import numbers
from toy_strategies import flags, make_generator
from toy_translation import EOS, FIRST, PAD, make_sample, make_task, sentences

from fairseq_specdec.engine.native import library
from fairseq_specdec.engine.native.library import Library

STRATEGIES = ("greedy", "greedy", "iad", "none", "sps", "gad")


def settings(random):
    """The settings of a model; many of them do not fit one another."""
    chosen = {"dropout": 0.0, "max_source_positions": 64, "max_target_positions": 64}
    widths = [random.choice((8, 12, 16, 24, 40, 64)) for _ in range(2)]
    if random.random() < 0.6:
        widths[1] = widths[0]
    for side, width in zip(("encoder", "decoder"), widths):
        chosen.update({
            f"{side}_embed_dim": width,
            f"{side}_ffn_embed_dim": random.choice((1, 7, 16, 33, 64)),
            f"{side}_attention_heads": random.choice((1, 2, 4)),
            f"{side}_layers": random.randint(1, 3),
            f"{side}_normalize_before": random.random() < 0.5,
            f"{side}_learned_pos": random.random() < 0.3,
        })  # fmt: skip
    for name in (
        "share_all_embeddings", "share_decoder_input_output_embed", "layernorm_embedding",
        "no_scale_embedding", "no_token_positional_embeddings", "tie_adaptive_weights",
        "no_decoder_final_norm", "no_cross_attention",
    ):  # fmt: skip
        chosen[name] = random.random() < 0.25
    if random.random() < 0.3:
        chosen["decoder_output_dim"] = random.choice((4, 16, 24, widths[1]))
    chosen["activation_fn"] = random.choice(
        ("relu", "gelu", "gelu_accurate", "tanh", "swish", "relu_squared", "linear")
    )
    return chosen


def build(given):
    """The model of these settings.

    Raises:
        ValueError, AssertionError: fairseq builds none.
    """
    args = argparse.Namespace(**given)
    base_architecture(args)
    return TransformerModel.build_model(args, make_task()).eval()


def drawn(random, seed):
    """(models, batch, flags, forced prefixes or None) of a seed, and what describes it."""
    sample = make_sample(sentences(random.randint(1, 4), seed=seed % 1000, longest=6))
    options = flags(max_len_b=random.choice((2, 6)))
    options.beam = options.nbest = random.choice((1, 1, *range(1, 11)))
    prefix = None
    if random.random() < 0.3:
        width = random.randint(1, 4)
        prefix = torch.randint(FIRST - 1, FIRST + 24, (sample["nsentences"], width))  # <unk> too
        for row in range(len(prefix)):
            size = random.randint(0, width)
            prefix[row, size:] = PAD
            if size > 1 and random.random() < 0.2:  # stock's beams die of </s> alone
                prefix[row, size - 1] = EOS
            elif random.random() < 0.4:
                prefix[row, random.randrange(width)] = PAD
    given = [settings(random) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    models = [build(each) for each in given]
    return (models, sample, options, prefix), (options.beam, prefix, given)


BROKEN = (float("nan"), float("inf"), float("-inf"), 1e38, 1e-38)
DRAFTED = ("gad", "gad-attached", "blockwise")
SECONDS = 10


@pytest.mark.skipif(library.load() is None, reason="no native library here")
def test_calls(fuzz, monkeypatch):
    """Done or refused, in bounded time; sanitizers see what reaches beyond a buffer."""
    call, done, odd = Library.call, set(), 0.0

    def changed(self, name, *arguments):
        """The call, after one of its numbers was replaced at times; unless that was done."""
        given = list(arguments)
        places = list(numbers(name, given)) if random.random() < odd else []
        number = random.choice(places) if places else None
        if number is not None and (values := number.impossible(free=True)):
            with number.replaced(random.choice(values)):
                try:
                    call(self, name, *given)
                except (ValueError, MemoryError, RuntimeError) as error:
                    assert str(error).isprintable() and str(error)
                    fuzz.counts["refused"] += 1
                else:
                    fuzz.counts["taken"] += 1
                    return
        call(self, name, *arguments)
        done.add(name)
        fuzz.counts["functions"] = len(done)

    for case in DRAFTED:
        make_generator(case)  # trains its toys
    monkeypatch.setattr(Library, "call", changed)
    for seed in fuzz.seeds():
        random, odd = fuzz.random(seed), 0.0
        torch.manual_seed(seed)
        try:
            (models, sample, options, prefix), about = drawn(random, seed)
        except (ValueError, AssertionError):
            continue
        chosen = random.choice(STRATEGIES if options.beam == 1 else STRATEGIES[:3])
        if options.beam == 1 and random.random() < 0.5:
            chosen, models = random.choice(DRAFTED), None
        elif random.random() < 0.2:
            weight = random.choice(list(models[0].parameters())).data.view(-1)
            weight[random.randrange(len(weight))] = random.choice(BROKEN)
        odd, started = random.choice((0.003, 0.02, 0.1, 0.5)), time.monotonic()
        try:
            generator = make_generator(chosen, options, models, backend="native")
            generator.generate(generator.models, sample, prefix_tokens=prefix)
        except Exception as error:  # a number that was taken leads anywhere
            fuzz.counts[type(error).__name__] += 1
        assert time.monotonic() - started < SECONDS, (seed, chosen, about)
    assert len(done) > 20  # else what is to be called is refused for another reason
