"""Random small models of every make the engine claims to run, trained a little on a toy language.

A number names a model and all that drafts for it: ``toy_pair(17)`` is the same on every machine.
Everything is in double precision, so that no two tokens tie by rounding alone.
"""

import copy
import functools
import random
from argparse import Namespace

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel, base_architecture
from toy_translation import (
    both,
    drafter_step,
    ids,
    make_sample,
    make_task,
    sentences,
    translate,
    translation_step,
)

from fairseq_specdec.models import BlockwiseTransformer, EarlyExitTransformer
from fairseq_specdec.models.attached_drafter import AttachedDrafter
from fairseq_specdec.models.spec_drafter import SpecDrafter

UPDATES = 30
MOST_UPDATES = 240
BLOCK = 6


def configuration(number):
    """(words of the two dictionaries, of which equal numbers are one; the model's settings by
    fairseq's names) of a number."""
    chosen = random.Random(number)
    source = chosen.choice([9, 16, 24, 40])
    target = source if chosen.random() < 0.6 else source + chosen.choice([3, 7])
    heads = chosen.choice([1, 2, 4])
    width = heads * chosen.choice([8, 12, 16])
    width = max(16, width)
    tied = chosen.choice(["all", "decoder", "none"] if source == target else ["decoder", "none"])
    settings = {
        **both(embed_dim=width, ffn_embed_dim=2 * width, attention_heads=heads),
        "decoder_ffn_embed_dim": chosen.choice([1, 2, 3]) * width,
        "encoder_layers": chosen.choice([1, 2]),
        "decoder_layers": chosen.choice([1, 2, 3]),
        "encoder_normalize_before": chosen.random() < 0.5,
        "decoder_normalize_before": chosen.random() < 0.5,
        "no_token_positional_embeddings": False,
        "encoder_learned_pos": False,
        "decoder_learned_pos": False,
        "layernorm_embedding": chosen.random() < 0.3,
        "no_scale_embedding": chosen.random() < 0.3,
        "activation_fn": chosen.choice(["relu", "gelu"]),
        "share_all_embeddings": tied == "all",
        "share_decoder_input_output_embed": tied != "none",
        "max_source_positions": 48,
        "max_target_positions": chosen.choice([24, 48]),
        "dropout": 0.0,
    }
    positions = chosen.choice(["learned", "sinusoidal", "mixed", "none"])
    if positions == "none":
        settings["no_token_positional_embeddings"] = True
    elif positions != "sinusoidal":
        settings["decoder_learned_pos"] = True
        settings["encoder_learned_pos"] = positions == "learned"
    if tied == "none" and chosen.random() < 0.4:
        settings["decoder_output_dim"] = max(8, width // 2)
    if settings["decoder_normalize_before"] and chosen.random() < 0.2:
        settings["no_decoder_final_norm"] = True
    return (source, target), settings


def train(step, parameters, words, first, updates):
    parameters = [p for p in parameters if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=4e-3)
    for update in range(first, first + updates):
        optimizer.param_groups[0]["lr"] = 8e-3 * min(1.0, (update + 1) / 15)
        sources = sentences(16, 1000 + update, 6, words[0])
        targets = [ids(translate(s, words[1])) for s in sources]
        optimizer.zero_grad()
        step(make_sample(sources), targets).backward()
        optimizer.step()


def greedy(task, model, sources):
    """Stock fairseq's outputs, beam 1."""
    generator = task.build_generator([model], Namespace(beam=1, max_len_b=20))
    ranked = task.inference_step(generator, [model], make_sample(sources))
    return [hypotheses[0]["tokens"].tolist() for hypotheses in ranked]


def is_diverse(task, model, words):
    """Whether a wrong cache, mask or position would show in what the model says."""
    outputs = greedy(task, model.eval(), sentences(16, 5, words=words[0]))
    model.train()
    used = {token for output in outputs for token in output}
    return len(used) >= min(8, words[1] // 2) and len(set(map(tuple, outputs))) >= 10


def perturbed(model, seed, share=0.1):
    """A model that says much the same, not always."""
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter += share * noise * parameter.std() if parameter.numel() > 1 else 0
    return other


class ToyPair:
    """A verifier and whatever drafts for it; drafters are made when asked for.

    Attributes:
        words, settings: what it is.
        task: holds the dictionaries.
        verifier: trained until its outputs are diverse, in eval mode.
        diverse: whether they are.
    """

    def __init__(self, number: int):
        self.words, self.settings = configuration(number)
        source, target = self.words
        self.task = make_task(source, None if source == target else target)
        self.args = Namespace(**self.settings)
        base_architecture(self.args)
        torch.manual_seed(number)
        model = TransformerModel.build_model(copy.copy(self.args), self.task)
        self.diverse = False
        for done in range(0, MOST_UPDATES, UPDATES):
            train(translation_step(model), model.parameters(), self.words, done, UPDATES)
            self.diverse = is_diverse(self.task, model, self.words)
            if self.diverse:
                break
        self.single = model.eval()
        self.verifier = copy.deepcopy(self.single).double()

    def _drafter(self, family, arch, updates, **settings):
        given = {"arch": arch, "block_size": BLOCK, "dropout": 0.0, "decoder_layers": 1}
        given.update(encoder_layers=1, encoder_embed_dim=32, encoder_ffn_embed_dim=48)
        given.update(encoder_attention_heads=2, max_source_positions=48, max_target_positions=48)
        given["share_all_embeddings"] = self.words[0] == self.words[1]
        args = Namespace(**dict(given, **settings))
        ARCH_CONFIG_REGISTRY[arch](args)
        model = family.build_model(args, self.task)
        if family is AttachedDrafter:
            model.encoder.attach(copy.deepcopy(self.single))
        train(drafter_step(model), model.parameters(), self.words, 0, updates)
        return model.eval().double()

    @functools.cache  # noqa: B019 - pairs live as long as their tests
    def block_drafter(self, trained=True):
        """A ``SpecDrafter``: mostly right at the beginning of a block, or never."""
        torch.manual_seed(7)
        return self._drafter(SpecDrafter, "spec_drafter_tiny", 2 * UPDATES if trained else 0)

    @functools.cache  # noqa: B019
    def attached_drafter(self):
        """An ``AttachedDrafter`` of all decoder layers, barely trained."""
        torch.manual_seed(8)
        layers = range(1, self.settings["decoder_layers"] + 1)
        width = self.settings["decoder_embed_dim"]
        return self._drafter(
            AttachedDrafter, "attached_drafter_tiny", UPDATES,
            read_layers=",".join(map(str, layers)), encoder_embed_dim=width,
            encoder_attention_heads=1,
        )  # fmt: skip

    @functools.cache  # noqa: B019
    def small_model(self):
        """A ``TransformerModel`` that is right often."""
        return perturbed(self.verifier, 11, 0.2)

    @functools.cache  # noqa: B019
    def blockwise(self):
        """The verifier with blockwise heads of chance, its base frozen."""
        torch.manual_seed(9)
        args = copy.copy(self.args)
        args.block_size, args.freeze_base = BLOCK, True
        ARCH_CONFIG_REGISTRY["blockwise_transformer_tiny"](args)
        model = BlockwiseTransformer.build_model(args, self.task)
        missing, unexpected = model.load_state_dict(self.single.state_dict(), strict=False)
        assert not unexpected and all("block_heads" in name for name in missing)
        return model.eval().double()

    @functools.cache  # noqa: B019
    def early_exit(self):
        """The verifier with an exit behind its first layer."""
        args = copy.copy(self.args)
        args.exit_layer = 1
        model = EarlyExitTransformer.build_model(args, self.task)
        model.load_state_dict(self.single.state_dict())
        return model.eval().double()

    def ensemble(self, size, first):
        """``first``, and models that differ from the verifier a little."""
        return [first] + [perturbed(self.verifier, 20 + i, 0.3) for i in range(1, size)]


@functools.lru_cache(maxsize=4)
def toy_pair(number: int) -> ToyPair:
    """The pair of a number, cached."""
    return ToyPair(number)
