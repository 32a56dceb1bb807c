"""The authors' drafter as their code is described: its layout on disk, and its plain pass.

Written from the description of their code, over fairseq's own layers and without any cache, so that
it shares nothing with the engine that is tested against it.
"""

import argparse
import copy
import functools

import torch
import torch.nn.functional as F
from fairseq.models import ARCH_CONFIG_REGISTRY
from settings_payloads import config_of
from toy_cache import trained
from toy_translation import PAD, ids, make_task, pad_to, sentences, translate

from fairseq_specdec.models.legacy_drafter import LegacyDrafter

UNK = 3
BLOCK = 4
COPY = "decoder.source_copy.query_proj.weight"
# The source copy shares the encoder's tables, which the authors store once.
SHARED = ("decoder.source_copy.embed_tokens.weight", "decoder.source_copy.embed_positions.weight")
SETTINGS = {
    "arch": "block", "task": "translation_lev_modified", "criterion": "glat_loss",
    "noise": "block_mask", "start_p": 0.5, "minus_p": 0.2, "total_up": 4000, "block_size": BLOCK,
    "encoder_embed_dim": 32, "decoder_embed_dim": 32, "encoder_ffn_embed_dim": 64,
    "decoder_ffn_embed_dim": 64, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_layers": 2, "decoder_layers": 2, "encoder_learned_pos": True,
    "decoder_learned_pos": True, "activation_fn": "gelu", "dropout": 0.0, "attention_dropout": 0.0,
    "activation_dropout": 0.0, "share_all_embeddings": True, "src_embedding_copy": True,
    "no_scale_embedding": False, "max_source_positions": 64, "max_target_positions": 64,
    "apply_bert_init": True, "optimizer": "adam", "lr_scheduler": "inverse_sqrt", "lr": [0.003],
    "data": ".", "source_lang": "en", "target_lang": "de", "label_smoothing": 0.1, "_name": "block",
}  # fmt: skip


def logits_of(model, src_tokens, prefix, masks=BLOCK):
    """[B, masks, V]: what the drafter says of the tokens behind ``prefix`` (long [B, s])."""
    table = model.encoder.embed_tokens.weight
    source = F.embedding(src_tokens, table)
    padding = src_tokens.eq(PAD)
    places = torch.cumsum(~padding, 1) + 1
    places[padding] = 1
    keys = source + F.embedding(places, model.encoder.embed_positions.weight)
    x = keys.transpose(0, 1)
    for layer in model.encoder.layers:
        x = layer(x, padding)
    encoded = x

    symbols = F.pad(prefix, (0, masks), value=UNK)
    positions = model.decoder.embed_positions.weight[2 : 2 + symbols.size(1)]
    x = F.embedding(symbols, table)
    if model.decoder.source_copy is not None:
        query = positions @ model.decoder.source_copy.query_proj.weight.t()
        scores = torch.einsum("ic,bjc->bij", query, keys)
        scores = scores.masked_fill(padding[:, None, :], float("-inf"))
        copied = torch.softmax(scores, -1) @ source
        x = torch.where((symbols == UNK).unsqueeze(2), copied, x)
    x = x.transpose(0, 1)
    for layer in model.decoder.layers:
        x = x + positions.unsqueeze(1)
        x, _, _ = layer(x, encoded, padding)
    return x.transpose(0, 1)[:, prefix.size(1) :] @ table.t()


@functools.cache
def authors_drafter(copied=True, updates=0):
    """A drafter trained a little on the toy language, by the plain pass above, in eval mode."""
    torch.manual_seed(3)
    args = argparse.Namespace(**dict(SETTINGS, src_embedding_copy=copied))
    ARCH_CONFIG_REGISTRY["block"](args)
    model = LegacyDrafter.build_model(args, make_task())
    return trained(
        model, functools.partial(teach, model, updates), copied, updates,
        uses=(LegacyDrafter.__module__,),
    )  # fmt: skip


def teach(model, updates):
    """Train it on the toy language, by the plain pass above."""
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    generator = torch.Generator().manual_seed(6)
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = 4e-3 * min(1.0, (update + 1) / 40)
        cut = int(torch.randint(0, 9, (1,), generator=generator))
        sources = sentences(64, seed=3000 + update)
        targets = [ids(translate(s)) for s in sources]
        both = [(s, t) for s, t in zip(sources, targets) if len(t) > cut]
        known = torch.tensor([t[:cut] for _, t in both], dtype=torch.long)
        rest = pad_to([(t + [PAD] * BLOCK)[cut : cut + BLOCK] for _, t in both], left=False)
        # A model must have met <unk> in the prefix to care what becomes of it.
        known[torch.rand(known.shape, generator=generator) < 0.05] = UNK
        optimizer.zero_grad()
        logits = logits_of(model, pad_to([ids(s) for s, _ in both], left=True), known)
        F.cross_entropy(logits.flatten(0, 1), rest.flatten(), ignore_index=PAD).backward()
        optimizer.step()


def to_authors(weights):
    """A drafter's weights under the authors' names."""
    theirs = {name: x for name, x in weights.items() if name not in SHARED}
    if COPY in theirs:
        theirs["decoder.copy_attn.weight"] = theirs.pop(COPY)
    return {"decoder.version": torch.tensor([3.0]), **theirs}


def authors_checkpoint(model, as_namespace=False, **settings):
    """What torch would have saved: a DictConfig that holds Namespaces, or a Namespace alone."""
    namespace = argparse.Namespace(**dict(SETTINGS, **settings))
    weights = to_authors(model.state_dict())
    state = {"args": None, "model": copy.deepcopy(weights), "optimizer_history": []}
    state.update(extra_state={}, task_state={}, last_optimizer_state=None)
    if as_namespace:
        return dict(state, args=namespace, cfg=None)
    task = {"_name": "translation_lev_modified", "data": ".", "block_size": BLOCK}
    parts = {"task": task, "model": namespace, "criterion": namespace}
    return dict(state, cfg=config_of(parts))


def same_weights(model, other):
    """Whether two models hold the same numbers under the same names."""
    ours, theirs = model.state_dict(), other.state_dict()
    # fairseq 0.12.1 keeps a buffer of memory that nobody has written.
    weights = [name for name in ours if not name.endswith("._float_tensor")]
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in weights)
