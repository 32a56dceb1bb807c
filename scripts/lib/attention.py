"""Attention to the source, of a verifier and of its block drafter (Xia et al. 2023, Figure 3).

``OUT.json`` has both over the verifier's greedy output; ``OUT.png`` draws three sentences where
matplotlib is installed. Row i is the query that predicts token i; the drafter's are masks of
blocks of k. Weights are means over heads and decoder layers. ``overlap`` is the mean sum of minima
of two rows; ``overlap_shared`` is that of the verifier's first query of each block for all of it.
"""

import argparse
import importlib.util
import sys

import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_specdec.checkpoints.verifier import Decoding, load_models
from fairseq_specdec.commands.own import load_plugin, log_to_stderr, reporting
from fairseq_specdec.data.parallel import open_text
from fairseq_specdec.decoding.drafter_file import check_reading, load_drafter
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import replacing, write_json
from fairseq_specdec.io.flag_values import AT_LEAST_1, add_flag, add_languages
from fairseq_specdec.models.verifier_tables import with_tables


def weights(model, *inputs, **more):
    """[W, S], of each decoder position in a pass over one sentence."""
    made, layers = [], model.decoder.layers
    hooks = [layer.register_forward_hook(lambda *call: made.append(call[2][1])) for layer in layers]
    model(*inputs, **more)
    for hook in hooks:
        hook.remove()
    # A layer returns [1, W, S]; the one that fairseq aligns words by, [H, 1, W, S].
    return torch.stack([each.flatten(0, -3).mean(0) for each in made]).mean(0)


@torch.no_grad()
def compare(verifier, drafter, source, target):
    """Both [T, S] for a source, long [S], and the verifier's output, long [T]."""
    k, given = drafter.decoder.block_size, (source[None], torch.tensor([len(source)]))
    before, ours = target.roll(1)[None], []  # </s> comes first
    for cut in range(0, len(target), k):  # a pass each: bidirectional prefixes take one cut
        block = {"cuts": torch.tensor([[cut]]), "targets": torch.zeros(1, 1, k).long()}
        ours.append(weights(drafter, *given, before[:, : cut + 1], **block)[cut + 1 :])
    theirs, drafted = weights(verifier, *given, before), torch.cat(ours)[: len(target)]
    both = {"overlap": drafted, "overlap_shared": theirs[torch.arange(len(target)) // k * k]}
    close = {name: float(torch.minimum(theirs, x).sum(1).mean()) for name, x in both.items()}
    return {**close, "verifier": theirs.tolist(), "drafter": drafted.tolist()}


def draw(sentences, path):
    from matplotlib.figure import Figure  # no pyplot: nothing global is set

    figure = Figure(figsize=(7, 8 * len(sentences)), layout="constrained")
    rows = [(made, name) for made in sentences for name in ("verifier", "drafter")]
    for axes, (made, name) in zip(figure.subplots(len(rows)), rows):
        axes.imshow(made[name], cmap="Blues", aspect="auto")
        words = [[x.replace("$", r"\$") for x in made[side]] for side in ("source", "target")]
        axes.set_xticks(range(len(words[0])), labels=words[0], rotation=60)
        axes.set_yticks(range(len(words[1])), labels=words[1])
        axes.set_title(name)
    with replacing(path, "wb") as stream:
        figure.savefig(stream, format="png")


def main(words):
    load_plugin()
    log_to_stderr()
    parser = argparse.ArgumentParser("attention", description=__doc__)
    parser.add_argument("data", help="folder of fairseq-preprocess")
    for name in ("--path", "--drafter-path", "--out"):
        parser.add_argument(name, required=True)
    add_languages(parser)
    add_flag(parser, "--gen-subset", "split of DATA to read", default="test")
    add_flag(parser, "--limit", "the first sentences of it", AT_LEAST_1, 3)
    parser.set_defaults(dictionary=None)
    with reporting("attention", words):
        write(parser.parse_args(words))


def write(args):
    corpus = open_text(args)
    src, tgt = corpus.source_words, corpus.target_words
    (verifier,), _ = load_models("--path", [args.path], Decoding(src, tgt))
    drafter = load_drafter(args.drafter_path, src, tgt)
    check_reading(drafter, verifier, "--drafter-path")
    drafter = with_tables(drafter, verifier).eval()
    if getattr(drafter.encoder, "read_layers", None):
        drafter.encoder.attach(verifier)
    if not len(drafter.decoder.layers):
        raise UsageError("--drafter-path", "a drafter without layers has no attention")
    greedy, sentences = SequenceGenerator([verifier.eval()], tgt, beam_size=1), []
    text = corpus.read(corpus.source)
    for source in (text[i] for i in range(min(args.limit, len(text)))):
        batch = {"src_tokens": source[None], "src_lengths": torch.tensor([len(source)])}
        target = greedy.generate([verifier], {"net_input": batch})[0][0]["tokens"]
        words = {"source": [src[t] for t in source], "target": [tgt[t] for t in target]}
        sentences.append({**words, **compare(verifier, drafter, source, target)})
    write_json(f"{args.out}.json", {"k": drafter.decoder.block_size, "sentences": sentences})
    if importlib.util.find_spec("matplotlib"):
        draw(sentences[:3], f"{args.out}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
