"""Every strategy over narrow random models of the papers' depth, inside a ``DeviceGuard``."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import torch
from device_guard import DeviceGuard, on_device
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from plain_graphs import GuardedRecorder, plain_graphs
from torch import Tensor
from toy_translation import EOS, FIRST, PAD, both, make_task

from fairseq_specdec.bench.timing import generation_flags
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding import generator as generator_module
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.drafting import token_choice
from fairseq_specdec.models.verifier_states import layers_at_thirds

WORDS, WIDTH, HEADS, LENGTH = 512, 64, 8, 27


TASK = make_task(WORDS - FIRST)


def model(arch, encoder_layers=6, decoder_layers=6, **more):
    """A model with random weights, in eval mode."""
    settings = both(embed_dim=WIDTH, ffn_embed_dim=4 * WIDTH, attention_heads=HEADS)
    settings.update(encoder_layers=encoder_layers, decoder_layers=decoder_layers, dropout=0.0)
    settings.update(share_all_embeddings=True, max_source_positions=256, max_target_positions=256)
    args = Namespace(arch=arch, **dict(settings, **more))
    ARCH_CONFIG_REGISTRY[arch](args)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, TASK).eval()


def attached():
    layers = ",".join(map(str, layers_at_thirds(6)))
    more = {"block_size": 10, "chain_width": WIDTH, "read_layers": layers}
    return model("attached_drafter_base", 6, 2, **more)


class DeviceSystem(NamedTuple):
    """What is decoded.

    Attributes:
        settings: decoding flags.
        drafter: makes the drafter's model.
        verifier: makes the verifier.
        flags: fairseq's generation flags.
    """

    settings: dict[str, Any]
    drafter: Callable[[], Any] | None = None
    verifier: Callable[[], Any] = lambda: model("transformer")
    flags: dict[str, Any] = {}


GAD = {"strategy": "gad"}
GADPP = {"strategy": "gad++", "top_beta": 3, "tau": 1.0}


def block_drafter():
    return model("spec_drafter_base", 12, 2, block_size=25)


def small():
    return model("transformer", 6, 1)


SYSTEMS = {
    "greedy": DeviceSystem({"strategy": "greedy"}),
    "iad": DeviceSystem({"strategy": "iad"}),
    "gad attached with chain, k = 10": DeviceSystem(GAD, attached),
    "gad++ attached with chain, k = 10": DeviceSystem(GADPP, attached),
    "gad 12+2, k = 25": DeviceSystem(GAD, block_drafter),
    "gad++ 12+2, k = 25": DeviceSystem(GADPP, block_drafter),
    "gad 6+6 bidirectional, k = 25": DeviceSystem(
        GAD, lambda: model("nar_drafter_base", 6, 6, block_size=25, bidirectional_prefix=True)
    ),
    "sps 6+1": DeviceSystem({"strategy": "sps"}, small),
    "sps 6+1 sampled": DeviceSystem({"strategy": "sps"}, small, flags={"sampling": True}),
    "bild 6+1": DeviceSystem({"strategy": "bild"}, small),
    "bild-early-exit, layer 1": DeviceSystem(
        {"strategy": "bild-early-exit"}, None, lambda: model("early_exit_transformer", exit_layer=1)
    ),
    "blockwise, k = 8": DeviceSystem(
        {"strategy": "blockwise"}, None, lambda: model("blockwise_transformer", block_size=8)
    ),
    "beam 5": DeviceSystem({"strategy": "greedy"}, flags={"beam": 5}),
    "beam 5, iad": DeviceSystem({"strategy": "iad", "draft_budget": 20}, flags={"beam": 5}),
}


def sample(rows):
    """A batch; of several rows most are padded on the left."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, WORDS, (rows, LENGTH), generator=generator)
    tokens[:, -1] = EOS
    lengths = [LENGTH - row % (LENGTH - 2) for row in range(rows)]
    for row, length in enumerate(lengths):
        tokens[row, : LENGTH - length] = PAD
    net_input = {"src_tokens": tokens, "src_lengths": torch.tensor(lengths)}
    return {"id": torch.arange(rows), "nsentences": rows, "net_input": net_input}


@torch.library.custom_op("specdec_tests::chain_steps", mutates_args=())
def _chain_steps(
    of_mask: Tensor, bonuses: Tensor, candidates: Tensor, previous: Tensor,
    tables: list[Tensor], judges: bool,
) -> list[Tensor]:  # fmt: skip
    given = (of_mask, bonuses, candidates, previous, tables, judges)
    return [each for each in token_choice.chain_steps(*given) if each is not None]


def one_kernel(*given):
    """As ``chain_kernel.chain_steps``: one operator, which a guard counts as one kernel."""
    return (*_chain_steps(*given), None)[:2]


class Counted(NamedTuple):
    """What an iteration at full block size costs, and how often the start of a batch waits."""

    launches: float
    waits: float
    copies: float
    start_waits: int


def count(system, rows, graphs):
    """Decode a batch inside a guard, after one that filled the caches.

    Args:
        graphs: passes and drafts are recorded: each is one launch then, and ``GuardedRecorder``
            holds what is inside.

    Returns:
        What is counted; and the kernels of these iterations, by line and operator.
    """
    torch.manual_seed(0)
    chosen = plain_graphs(GuardedRecorder) if graphs else generator_module.graphs_for
    kernel = mock.patch.object(token_choice, "steps_on", lambda device: one_kernel)
    graphs_for = mock.patch.object(generator_module, "graphs_for", chosen)
    with kernel, graphs_for, DeviceGuard() as guard:
        GuardedRecorder.clear(guard)
        verifier, drafter = system.verifier(), system.drafter and system.drafter()
        verifier.to("cuda")
        settings = dict(system.settings, cuda_graphs="off")
        if drafter is not None:
            settings["drafter_path"] = __file__  # any file: `load` reads none
        flags = generation_flags(**dict({"beam": 1, "max_len_b": 220}, **system.flags))
        generator = build_generator(
            [verifier], TASK.source_dictionary, TASK.target_dictionary, flags,
            decoding_settings(**settings), load=lambda *_: drafter,
            overrides=Overrides(always_draft=True),
        )  # fmt: skip
        batch_of = on_device(sample(rows))
        for _ in range(2):
            guard.clear()
            with generator.batch([verifier], batch_of) as batch:
                start_waits = sum(guard.waits.values())
                for _ in range(3):
                    batch.iterate()
                guard.clear()
                GuardedRecorder.clear(guard)
                for _ in range(3):
                    batch.iterate()
                assert batch.live, "the random models ended their sentences"
                totals = [guard.launches, sum(guard.waits.values()), sum(guard.copies.values())]
                kernels = guard.kernels.copy()
    return Counted(*(number / 3 for number in totals), start_waits), kernels
