"""Blockwise models on the toy translators, trained in seconds."""

import dataclasses
import functools
from argparse import Namespace

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from toy_cache import trained
from toy_drafter import save_model
from toy_translation import ids, make_sample, make_task, toy_model, train, training_batch, translate

from fairseq_specdec.criterions import BlockwiseLoss, BlockwiseLossConfig
from fairseq_specdec.models import BlockwiseTransformer


def save_checkpoint(path, model):
    """A checkpoint with nothing else than what loading needs."""
    flags = {}
    for name, value in dataclasses.asdict(model.cfg).items():
        if isinstance(value, dict):  # as a command line gives them: encoder_layers
            flags.update({f"{name}_{inner}": setting for inner, setting in value.items()})
        else:
            flags[name] = getattr(value, "value", value)
    save_model(path, Namespace(**dict(flags, arch="transformer", _name="transformer")), model)


def blockwise_args(arch="blockwise_transformer_tiny", **settings):
    args = Namespace(arch=arch, **settings)
    ARCH_CONFIG_REGISTRY[arch](args)
    return args


def make_blockwise(path=None, task=None, **settings):
    """A blockwise model, on the checkpoint ``path`` if given."""
    args = blockwise_args(init_from=path and str(path), **dict({"dropout": 0.0}, **settings))
    return BlockwiseTransformer.build_model(args, task or make_task()), args


def make_batch(sources):
    """A training batch of the toy language."""
    return training_batch(make_sample(sources), [ids(translate(s)) for s in sources])


def teach(model, updates, batch=None, smoothing=0.0, mean=True):
    """Train heads (and base, unless frozen) on the toy language, or on one batch only."""
    settings = BlockwiseLossConfig(label_smoothing=smoothing, mean_of_heads=mean, seed=1)
    criterion = BlockwiseLoss(settings, make_task())
    model.train()

    def step(sample, targets):
        model.set_num_updates(model.num_updates + 1)
        loss, size, _ = criterion(model, batch or training_batch(sample, targets))
        return loss / size

    train(step, [p for p in model.parameters() if p.requires_grad], updates)
    return model.eval()


@functools.cache
def toy_blockwise(folder, shape="post_norm", updates=80, **settings):
    """A trained blockwise model on ``toy_model(shape)``, whose checkpoint goes to ``folder``."""
    path = folder / f"{shape}.pt"
    if not path.exists():
        save_checkpoint(path, toy_model(shape))
    torch.manual_seed(3)
    model, _ = make_blockwise(path, **settings)
    uses = (BlockwiseTransformer.__module__, BlockwiseLoss.__module__)
    return trained(
        model, functools.partial(teach, model, updates), shape, updates, settings, uses=uses
    )
