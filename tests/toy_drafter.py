"""Small drafters, verifiers and batches, built in memory."""

from argparse import Namespace

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel
from toy_translation import both, dictionary

from fairseq_specdec.models.spec_drafter import SpecDrafter

PAD, EOS = 1, 2


def dictionary_of(*symbols):
    made = Dictionary()
    for symbol in symbols:
        made.add_symbol(symbol)
    return made


class ToyTask:
    """What a model and a criterion ask of a task."""

    def __init__(self, words=40, target_words=None, **cfg):
        self.source_dictionary = dictionary(words)
        self.target_dictionary = (
            self.source_dictionary if target_words is None else dictionary(target_words)
        )
        self.cfg = Namespace(**cfg)


def make_drafter(task=None, arch="spec_drafter_tiny", model=SpecDrafter, **settings):
    settings = dict({"block_size": 4, "dropout": 0.0}, **settings)
    args = Namespace(arch=arch, **settings)
    ARCH_CONFIG_REGISTRY[arch](args)
    return model.build_model(args, task or ToyTask())


def make_verifier(task=None, **settings):
    shape = both(embed_dim=64, ffn_embed_dim=128, attention_heads=2, layers=2)
    args = Namespace(arch="transformer", **dict(shape, dropout=0.0, **settings))
    return TransformerModel.build_model(args, task or ToyTask()), args


def save_model(path, args, model):
    """A checkpoint with nothing else than what loading needs."""
    history = [
        {"num_updates": 0, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}
    ]
    iterator = {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "shuffle": True}}
    state = {"args": args, "model": model.state_dict(), "optimizer_history": history}
    torch.save(dict(state, extra_state=iterator), str(path))


def save_verifier(path, task=None, **settings):
    """A verifier's checkpoint with nothing else than what loading needs; returns the verifier."""
    model, args = make_verifier(task, **settings)
    for parameter in model.parameters():  # norms and biases that copying must not miss
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    args._name = "transformer"
    save_model(path, args, model)
    return model


def make_batch(rows=5, longest=9, words=40, seed=0):
    """A batch as ``LanguagePairDataset`` collates it: sources padded left, targets right."""
    generator = torch.Generator().manual_seed(seed)

    def sentences(pad_left):
        lengths = torch.randint(2, longest + 1, (rows,), generator=generator)
        lengths[0] = longest
        tokens = torch.full((rows, longest), PAD)
        for row, length in enumerate(lengths.tolist()):
            words_of_row = torch.randint(4, 4 + words, (length,), generator=generator)
            words_of_row[-1] = EOS
            tokens[row, slice(-length, None) if pad_left else slice(length)] = words_of_row
        return tokens, lengths

    source, source_lengths = sentences(True)
    target, lengths = sentences(False)
    previous = torch.full_like(target, PAD)
    previous[:, 0] = EOS
    for row, length in enumerate(lengths.tolist()):
        previous[row, 1:length] = target[row, : length - 1]
    net_input = {
        "src_tokens": source,
        "src_lengths": source_lengths,
        "prev_output_tokens": previous,
    }
    return {
        "id": torch.arange(rows),
        "target": target,
        "ntokens": int(lengths.sum()),
        "nsentences": rows,
        "net_input": net_input,
    }
