"""Time greedy decoding with the speculative vocabulary and the twin: in turns, bits compared.

    taskset -c 1 python benchmarks/vocabulary.py nllb-600m --vocabulary 256206

A model of random weights that fp16 holds translates random sentences. The list has the tokens of
the outputs among 1,000, so that its choice is seldom wrong. Beside other engines, of 24 tokens:

    python benchmarks/vocabulary.py nllb-600m --vocabulary 256206 --save FOLDER
    python benchmarks/peers.py FOLDER --path FOLDER/verifier.pt --peers ctranslate2 --cpu \
        -s src -t tgt --gen-subset test --min-len 24 --max-len-a 0 --max-len-b 24 \
        --batch-size 1 --system "greedy: --strategy greedy"
"""

import argparse
import math
import pathlib
import random
import statistics
import tempfile
import time
from types import SimpleNamespace

import random_pair
import torch

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import build_generator

LISTED, SOURCE = 1000, 12
REVISED = 5  # one of so many tokens of a given draft is wrong
SYSTEMS = {
    "greedy": {"vocabulary_window": 1, "twin": "none"}, "preview": {"twin": "none"},
    "list": {"vocabulary_list": True, "twin": "none"},
    "twin alone": {"vocabulary_window": 1, "twin": "int8"}, "twin, preview": {"twin": "int8"},
    "twin, list": {"vocabulary_list": True, "twin": "int8"},
    "given": {"strategy": "given", "vocabulary_window": 1},
    "given, preview": {"strategy": "given"},
    "given, list": {"strategy": "given", "vocabulary_list": True},
}  # fmt: skip


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("size", choices=random_pair.SIZES)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--length", type=int, default=24, help="tokens of an output")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--verifier-dtype", default="fp32")
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--warm-up", type=int, default=36, help="batches before")
    parser.add_argument("--save", metavar="FOLDER", help="for peers.py, an empty one")
    return parser.parse_args()


@torch.no_grad()
def flatten(decoder):
    """Leave both random vocabularies an eighth of their dimensions, which a preview finds. The rows
    of the second are mixed and layers add little, so that each token follows from the one before:
    others repeat one token for ever."""
    for name, weight in decoder.layers.named_parameters():
        if name.endswith(("out_proj.weight", "fc2.weight")):
            weight.mul_(0.1)
    projection, weight = decoder.output_projection, decoder.embed_tokens.weight
    directions = torch.linalg.qr(torch.randn(weight.size(1), weight.size(1) // 8))[0]
    few = math.sqrt(8) * weight @ directions @ directions.t()
    projection.weight = torch.nn.Parameter(few[torch.randperm(len(weight))])
    weight.copy_(few)


def main():
    given = read_arguments()
    with tempfile.TemporaryDirectory() as folder:
        settings = SimpleNamespace(**vars(given), sentences=given.batches, seed=2)
        task = random_pair.write(settings, given.save or folder)
    words = task.target_dictionary
    model = random_pair.verifier(random_pair.SIZES[given.size], task, 1)
    flatten(model.decoder)
    model = model.half().float()
    if given.save:
        model.args.share_all_embeddings = False
        return random_pair.save(model, pathlib.Path(given.save) / "verifier.pt")
    flags = SimpleNamespace(max_len_a=0, max_len_b=given.length, min_len=given.length, beam=1)
    torch.manual_seed(2)
    count = given.warm_up + given.batches
    sources = torch.randint(4, given.vocabulary, (count, given.batch_size, SOURCE))
    sources[..., -1] = words.eos()
    lengths = torch.full((given.batch_size,), SOURCE)

    def generator(name, path):
        chosen = {key: path if value is True else value for key, value in SYSTEMS[name].items()}
        chosen["verifier_dtype"] = given.verifier_dtype
        settings = decoding_settings(backend="native", **chosen)
        return build_generator([model], words, words, flags, settings)

    def run(made, batch, drafts=None):
        """(tokens and scores, CPU seconds)."""
        net_input = {"src_tokens": batch, "src_lengths": lengths, "prev_output_tokens": batch}
        started = time.process_time()
        ranked = made.generate([model], {"net_input": net_input, "draft_tokens": drafts})
        spent = time.process_time() - started
        return [(h["tokens"].tolist(), h["positional_scores"].tolist()) for (h,) in ranked], spent

    plain = generator("greedy", None)
    wanted = [run(plain, batch)[0] for batch in sources]
    listed = sorted({token for outputs in wanted for tokens, _ in outputs for token in tokens})
    listed += random.Random(0).sample(range(4, given.vocabulary), LISTED)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "list"
        lines = dict.fromkeys(words[token] for token in listed[:LISTED])
        path.write_text("\n".join(lines), encoding="utf-8")
        bits = given.verifier_dtype in ("int8", "int7")
        names = [name for name in SYSTEMS if not (bits and name.startswith("twin"))]
        made = {name: generator(name, str(path)) for name in names}
        seconds = {name: [] for name in names}
        for batch, outputs in zip(sources, wanted):
            drafts = torch.tensor([tokens for tokens, _ in outputs])
            drafts[:, REVISED - 1 :: REVISED] = words.unk()
            for name in names:
                found, spent = run(made[name], batch, drafts)
                assert found == outputs, name
                seconds[name].append(spent)
    first = given.warm_up
    base = statistics.median(seconds["greedy"][first:])
    for name in names:
        taken = statistics.median(seconds[name][first:])
        print(f"{name:18}{1000 * taken:9.1f} ms of CPU per batch{base / taken:7.2f}")


if __name__ == "__main__":
    main()
