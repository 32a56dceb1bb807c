"""Toy translation models, trained in seconds, whose outputs are diverse.

Exactness cannot be tested on random weights: their outputs collapse to two or three tokens, and a
broken cache goes unnoticed. The task here asks the model to find its place in the source at every
step, so that a wrong cache, mask or position changes the output.
"""

import copy
import functools
from argparse import Namespace

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from toy_cache import trained

from fairseq_specdec.models.attached_drafter import AttachedDrafter
from fairseq_specdec.models.spec_drafter import SpecDrafter
from fairseq_specdec.models.verifier_states import layers_at_thirds

PAD, EOS, UNK = 1, 2, 3
WORDS = 24
FIRST = 4

SHAPES = {
    "post_norm": {},
    "pre_norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "learned": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "layernorm_embedding": {
        "layernorm_embedding": True,
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "no_scale_embedding": True,
        "activation_fn": "gelu",
    },
    "separate_embeddings": {
        "share_all_embeddings": False,
        "share_decoder_input_output_embed": False,
        "encoder_layers": 3,
        "decoder_layers": 1,
        "encoder_embed_dim": 48,
    },
    "no_positions": {"no_token_positional_embeddings": True},
    # Little noise: in training each forward pass sets some weights to zero for good.
    "quant_noise": {"quant_noise_pq": 0.001, "quant_noise_pq_block_size": 8},
    "narrow_output": {"share_all_embeddings": False, "decoder_output_dim": 16},
}


def both(**shape):
    """The same settings of encoder and decoder: layers, embed_dim, ffn_embed_dim ..."""
    return {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in shape.items()}


def dictionary(words=WORDS):
    result = Dictionary()
    for word in range(words):
        result.add_symbol(f"w{word}")
    return result


def translate(sentence, words=WORDS):
    """The toy language: even words stay, odd ones are exchanged, every third becomes two."""
    output = []
    for word in sentence:
        now = word if word % 2 == 0 else (7 * word + 4) % words
        output += [now, (now + 5) % words] if word % 3 == 0 else [now]
    return output


def sentences(count, seed, longest=9, words=WORDS):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [torch.randint(0, words, (n,), generator=generator).tolist() for n in lengths]


def pad_to(rows, left):
    width = max(map(len, rows))
    filled = ((row, [PAD] * (width - len(row))) for row in rows)
    return torch.tensor([pads + row if left else row + pads for row, pads in filled])


def ids(words):
    return [FIRST + w for w in words] + [EOS]


def with_ties(model):
    """A copy in which every other token ties with the one after it, and padding and <unk> are
    likelier than two of them."""
    model = copy.deepcopy(model)
    projection = model.decoder.output_projection
    weight = projection.weight.clone()
    weight[FIRST::2] = weight[FIRST + 1 :: 2]
    weight[PAD], weight[UNK] = 1.2 * weight[FIRST], 1.1 * weight[FIRST + 2]
    projection.weight = torch.nn.Parameter(weight.detach())  # no embedding any more
    return model


def make_sample(sources, left=True):
    """A batch as fairseq's collater makes it."""
    rows = [ids(s) for s in sources]
    return {
        "id": torch.arange(len(rows)),
        "nsentences": len(rows),
        "target": None,
        "net_input": {
            "src_tokens": pad_to(rows, left),
            "src_lengths": torch.tensor([len(r) for r in rows]),
        },
    }


def training_batch(sample, targets):
    """``make_sample``'s batch with its targets."""
    previous = pad_to([[EOS] + t[:-1] for t in targets], left=False)
    return {
        **sample,
        "net_input": dict(sample["net_input"], prev_output_tokens=previous),
        "target": pad_to(targets, left=False),
        "ntokens": sum(map(len, targets)),
    }


def make_task(source=WORDS, target=None):
    """``target``: words of another dictionary."""
    words = dictionary(source)
    return TranslationTask(
        TranslationConfig(), words, words if target is None else dictionary(target)
    )


def train(step, parameters, updates):
    optimizer = torch.optim.Adam(parameters, lr=4e-3, fused=True)
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = 4e-3 * min(1.0, (update + 1) / 40)
        sources = sentences(32, seed=1000 + update)
        targets = [ids(translate(s)) for s in sources]
        optimizer.zero_grad()
        step(make_sample(sources), targets).backward()
        optimizer.step()


def translation_step(model):
    """One update's loss, for ``train``."""

    def step(sample, targets):
        batch = training_batch(sample, targets)
        logits, _ = model(**batch["net_input"])
        return F.cross_entropy(logits.flatten(0, 1), batch["target"].flatten(), ignore_index=PAD)

    return step


@functools.cache
def toy_model(shape="post_norm", seed=1, updates=150):
    """A verifier of the given shape, trained a little, in eval mode."""
    torch.manual_seed(seed)
    settings = both(embed_dim=32, ffn_embed_dim=64, attention_heads=4, layers=2)
    settings.update(share_all_embeddings=True, dropout=0.0)
    settings.update(max_source_positions=64, max_target_positions=64, **SHAPES[shape])
    args = Namespace(**settings)
    base_architecture(args)
    model = TransformerModel.build_model(args, make_task())
    teach = functools.partial(train, translation_step(model), model.parameters(), updates)
    return trained(model, teach, shape, seed, updates)


@functools.cache
def toy_drafter(block_size=4, updates=150, **settings):
    """A drafter trained on the same toy language, in eval mode."""
    torch.manual_seed(5)
    arch = "spec_drafter_tiny"
    chosen = {"arch": arch, "block_size": block_size, "dropout": 0.0, "share_all_embeddings": True}
    args = Namespace(**dict(chosen, **settings))
    ARCH_CONFIG_REGISTRY[arch](args)
    model = SpecDrafter.build_model(args, make_task())
    return trained_drafter(model, updates, block_size, settings)


def trained_drafter(model, updates, *settings):
    """The drafter in eval mode, trained to fill in blocks of the toy language."""
    teach = functools.partial(train, drafter_step(model), model.parameters(), updates)
    return trained(model, teach, updates, *settings, uses=(type(model).__module__,))


def drafter_step(model):
    """One update's loss, for ``train``."""
    block_size = model.decoder.block_size

    def step(sample, targets):
        batch = training_batch(sample, targets)
        lengths = torch.tensor([len(t) for t in targets])
        cuts = (torch.rand(len(targets), 1) * lengths.unsqueeze(1)).long()
        columns = cuts.unsqueeze(2) + torch.arange(block_size)
        wide = F.pad(batch["target"], (0, block_size), value=PAD)
        blocks = wide.gather(1, columns.flatten(1)).view_as(columns)
        out = model(cuts=cuts, targets=blocks, **batch["net_input"])
        return F.cross_entropy(out["logits"], blocks[out["learnt"]])

    return step


@functools.cache
def toy_attached_drafter(shape="post_norm", block_size=4, updates=150, **settings):
    """A drafter that reads ``toy_model(shape)``, in eval mode."""
    torch.manual_seed(5)
    arch = "attached_drafter_tiny"
    verifier = toy_model(shape)
    layers = ",".join(map(str, layers_at_thirds(len(verifier.decoder.layers))))
    chosen = {"arch": arch, "block_size": block_size, "dropout": 0.0, "read_layers": layers}
    chosen.update(encoder_embed_dim=32, encoder_attention_heads=4)
    args = Namespace(**dict(chosen, **settings))
    ARCH_CONFIG_REGISTRY[arch](args)
    model = AttachedDrafter.build_model(args, make_task())
    model.encoder.attach(copy.deepcopy(verifier))
    return trained_drafter(model, updates, shape, block_size, settings)


def assert_diverse(outputs):
    """Outputs (lists of token ids) that could show a broken cache: many tokens, many sentences."""
    distinct = {tuple(o) for o in outputs}
    assert len({t for o in outputs for t in o}) >= 12, "the toy model's outputs are collapsed"
    assert len(distinct) >= 0.8 * len(outputs), "the toy model's outputs repeat one another"
