"""A toy early-exit model, trained in seconds as ``toy_translation``'s verifiers are."""

import functools
from argparse import Namespace

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from toy_cache import trained
from toy_translation import SHAPES, both, make_task, train
from toy_translation import training_batch as make_batch

from fairseq_specdec.criterions import EarlyExitLoss, EarlyExitLossConfig
from fairseq_specdec.models import EarlyExitTransformer

ARCH = "early_exit_transformer_tiny"


def make_args(**settings):
    """Model settings as fairseq's command line hands them over."""
    given = both(embed_dim=32, layers=2)
    given.update(decoder_layers=3, share_all_embeddings=True, dropout=0.0)
    given.update(max_source_positions=64, max_target_positions=64, **settings)
    args = Namespace(**given)
    ARCH_CONFIG_REGISTRY[ARCH](args)
    return args


def build(**settings):
    """An untrained model of 3 decoder layers, and of 1 to its exit."""
    return EarlyExitTransformer.build_model(make_args(**settings), make_task())


@functools.cache
def toy_early_exit(shape="post_norm", exit_layer=1, updates=200):
    """Trained a little by the criterion itself, in eval mode."""
    torch.manual_seed(3)
    model = build(exit_layer=exit_layer, **SHAPES[shape])
    criterion = EarlyExitLoss(EarlyExitLossConfig(sentence_avg=False), make_task())

    def step(sample, targets):
        loss, size, _ = criterion(model, make_batch(sample, targets))
        return loss / size

    teach = functools.partial(train, step, model.parameters(), updates)
    uses = (EarlyExitTransformer.__module__, EarlyExitLoss.__module__)
    return trained(model, teach, shape, exit_layer, updates, uses=uses)
