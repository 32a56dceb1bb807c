"""Other engines on a fairseq checkpoint: what each converts, loads and decodes.

As a script: read orders (JSON, one a line) from standard input and answer each, for peers.py. In
one process the engines would slow each other: CTranslate2 and torch both use GNU's OpenMP, which
stops spinning between two regions of work once it manages more threads than there are cores.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time

WINDOW, QUIET = 0.002, 0.15  # seconds looked at, and the share of them that a process at rest uses


def peak_resident():
    """Bytes: the most that this process has had in memory (not ru_maxrss, which is inherited)."""
    with open("/proc/self/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def until_at_rest(longest=1.0):
    """Wait until the threads of this process have stopped spinning, ``longest`` seconds at most."""
    end, quiet = time.perf_counter() + longest, 0
    while quiet < 2 and time.perf_counter() < end:
        used, at = time.process_time(), time.perf_counter()
        time.sleep(WINDOW)
        share = (time.process_time() - used) / (time.perf_counter() - at)
        quiet = quiet + 1 if share < QUIET else 0
    return quiet == 2


def legible(path, folder):
    """A copy of a checkpoint's weights and settings as fairseq 0.9 laid them out: converters ask
    for the name of the task, and for a Namespace of settings."""
    import torch
    from fairseq import checkpoint_utils

    import fairseq_specdec.tasks  # noqa: F401  (fairseq's checkpoints load under torch 2.6 and later)

    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    settings = state.get("args") or state["cfg"]["model"]
    given = dict(vars(settings) if isinstance(settings, argparse.Namespace) else settings)
    given.update(task="translation", arch=given.get("arch") or given["_name"])
    copy = os.path.join(folder, "checkpoint.pt")
    torch.save({"args": argparse.Namespace(**given), "model": state["model"]}, copy)
    return copy


def dictionary(data, language):
    from fairseq.data import Dictionary

    return Dictionary.load(os.path.join(data, f"dict.{language}.txt"))


class CTranslate2:
    """Its own converter and ``translate_batch``, which takes and gives symbols and adds </s>."""

    title, module, needs = "CTranslate2", "ctranslate2", ("ctranslate2",)
    kinds, half_kinds, widest = ("float32", "int8"), ("float16", "int8_float16"), 1_000_000
    plain = {}  # further generation flags without a counterpart, and their only value

    @staticmethod
    def convert(checkpoint, data, source, target, folder, kind):
        import torch
        from ctranslate2.converters import FairseqConverter

        with torch.serialization.safe_globals([argparse.Namespace]):
            FairseqConverter(checkpoint, data, source, target).convert(folder)
        for side, language in (("source", source), ("target", target)):
            path = os.path.join(data, f"dict.{language}.txt")
            shutil.copyfile(path, os.path.join(folder, f"dict.{side}.txt"))

    def __init__(self, folder, kind, cuda, threads, generation):
        import ctranslate2

        self._source, self._target = dictionary(folder, "source"), dictionary(folder, "target")
        self._settings = {
            "length_penalty": generation.get("lenpen", 1),
            "max_input_length": 0,
            "min_decoding_length": generation.get("min_len", 1),
            "no_repeat_ngram_size": generation.get("no_repeat_ngram_size", 0),
        }
        self._translator = ctranslate2.Translator(
            folder, device="cuda" if cuda else "cpu", compute_type=kind, intra_threads=threads
        )

    def inputs(self, rows):
        symbols = self._source
        return [[symbols[t] for t in row if t != symbols.eos()] for row in rows]

    def run(self, batch, limit, beam):
        """Decode, ``limit`` tokens at most, and </s>, which the engine counts too."""
        return self._translator.translate_batch(
            batch, beam_size=beam, max_decoding_length=limit + 1, **self._settings
        )

    def tokens(self, results):
        symbols = self._target
        return [[*map(symbols.index, one.hypotheses[0]), symbols.eos()] for one in results]


# Settings, by fairseq's name, that the classes of transformers assume.
SAME = {
    "share_all_embeddings": True, "encoder_learned_pos": False, "decoder_learned_pos": False,
    "layernorm_embedding": False, "no_token_positional_embeddings": False,
    "no_cross_attention": False, "cross_self_attention": False, "adaptive_softmax_cutoff": None,
}  # fmt: skip


def to_transformers(checkpoint, entries, folder):
    """Write a fairseq Transformer as a model of transformers with the same output: pre-norm as
    M2M-100, post-norm as Marian with fairseq's table of positions. ``entries``: of the
    vocabulary."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers
    from fairseq.modules import SinusoidalPositionalEmbedding

    from fairseq_specdec.checkpoints.reading import load_checkpoint

    state = load_checkpoint(checkpoint)
    args, weights = vars(state["args"]), state["model"]
    for name, value in SAME.items():
        if (args.get(name) or None) != (value or None):
            raise ValueError(f"{name}={args.get(name)} has no counterpart in transformers")
    pre_norm = bool(args.get("decoder_normalize_before"))
    if pre_norm != bool(args.get("encoder_normalize_before")):
        raise ValueError("an encoder and decoder of which one is pre-norm")
    sides = {
        f"{side}_{theirs}": args[f"{side}_{ours}"]
        for side in ("encoder", "decoder")
        for theirs, ours in (("layers", "layers"), ("ffn_dim", "ffn_embed_dim"),
                             ("attention_heads", "attention_heads"))
    }  # fmt: skip
    width = args["decoder_embed_dim"]
    settings = dict(
        sides, vocab_size=entries, d_model=width, max_position_embeddings=1024,
        activation_function=args.get("activation_fn", "relu"),
        scale_embedding=not args.get("no_scale_embedding"), dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, encoder_layerdrop=0.0, decoder_layerdrop=0.0, bos_token_id=0,
        pad_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None,
        tie_word_embeddings=True,
    )  # fmt: skip
    if pre_norm:
        model = transformers.M2M100ForConditionalGeneration(
            transformers.M2M100Config(**settings)
        ).eval()
    else:
        more = {"decoder_vocab_size": entries, "share_encoder_decoder_embeddings": True}
        model = transformers.MarianMTModel(transformers.MarianConfig(**more, **settings)).eval()
        table = SinusoidalPositionalEmbedding.get_embedding(1026, width, 1)
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.data.copy_(table[2:])  # fairseq counts from pad + 1
        model._keys_to_ignore_on_save = None  # or the table would not be saved
    # The final norms are M2M-100's alone.
    kept = ("layer_norm", ".layers.") if pre_norm else (".layer",)
    tensors = {
        f"model.{name}": value for name, value in weights.items()
        if ".layer" in name and any(part in name for part in kept)
    }  # fmt: skip
    table = weights.get("encoder.embed_tokens.weight", weights.get("decoder.embed_tokens.weight"))
    for name in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens"):
        tensors[f"{name}.weight"] = table
    tensors["lm_head.weight"] = table
    tensors = {name: value.float() for name, value in tensors.items()}
    missing, unknown = model.load_state_dict(tensors, strict=False)
    made = ("embed_positions", "final_logits")
    left = [name for name in missing if not any(part in name for part in made)]
    if left or unknown:
        raise ValueError(f"weights without a counterpart: {(left + list(unknown))[:3]}")
    model.save_pretrained(folder)


def padded(rows):
    """Tokens and mask, long [rows][longest], padded on the right with 1."""
    import torch

    longest = max(map(len, rows))
    tokens = torch.tensor([row + [1] * (longest - len(row)) for row in rows])
    return tokens, (tokens != 1).long()


class OnnxRuntime:
    """optimum's export of the same model, decoded greedily by a loop that feeds a step's keys and
    values to the next step without a copy (``generate`` of optimum costs more than the network)."""

    title, module = "ONNX Runtime", "onnxruntime"
    needs = ("onnxruntime", "optimum", "transformers")
    kinds, half_kinds, widest = ("float32", "int8"), (), 1
    plain = {"no_repeat_ngram_size": 0}
    files = ("encoder_model.onnx", "decoder_model_merged.onnx")

    @classmethod
    def convert(cls, checkpoint, data, source, target, folder, kind):
        """int8 as the engine's guide advises for processors without VNNI: 7-bit weights by
        column."""
        from optimum.onnxruntime import ORTModelForSeq2SeqLM

        with tempfile.TemporaryDirectory() as model:
            to_transformers(checkpoint, len(dictionary(data, source)), model)
            exported = ORTModelForSeq2SeqLM.from_pretrained(model, export=True, use_merged=True)
        exported.save_pretrained(folder)
        if kind == "int8":
            from onnxruntime.quantization import QuantType, quantize_dynamic

            for path in (os.path.join(folder, name) for name in cls.files):
                quantize_dynamic(
                    path, f"{path}.int8", weight_type=QuantType.QInt8, per_channel=True,
                    reduce_range=True,
                    extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True},
                )  # fmt: skip
                shutil.move(f"{path}.int8", path)

    def __init__(self, folder, kind, cuda, threads, generation):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        provider = ["CUDAExecutionProvider" if cuda else "CPUExecutionProvider"]
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(os.path.join(folder, name), options, providers=provider)
            for name in self.files
        )
        self._shortest = generation.get("min_len", 1)
        inputs = self._decoder.get_inputs()
        self._past = {i.name: i.shape for i in inputs if i.name.startswith("past_key_values")}
        self._outputs = [each.name for each in self._decoder.get_outputs()]

    def inputs(self, rows):
        return [each.numpy() for each in padded(rows)]

    def run(self, inputs, limit, beam):
        """Decode until every row has ended; [rows][steps]."""
        import numpy
        from onnxruntime import OrtValue

        tokens, mask = inputs
        states = self._encoder.run(None, {"input_ids": tokens, "attention_mask": mask})[0]
        rows = len(tokens)
        binding = self._decoder.io_binding()
        binding.bind_cpu_input("encoder_hidden_states", states)
        binding.bind_cpu_input("encoder_attention_mask", mask)
        for name, shape in self._past.items():  # not read by the first step
            empty = numpy.zeros((rows, shape[1], 1, shape[3]), numpy.float32)
            binding.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(empty))
        last, ended = numpy.full((rows, 1), 2, numpy.int64), numpy.zeros((rows, 1), bool)
        columns = []
        for step in range(limit + 1):
            binding.bind_cpu_input("input_ids", last)
            binding.bind_cpu_input("use_cache_branch", numpy.array([step > 0]))
            binding.clear_binding_outputs()
            for name in self._outputs:
                binding.bind_output(name, "cpu")
            self._decoder.run_with_iobinding(binding)
            values = dict(zip(self._outputs, binding.get_outputs()))
            logits = values["logits"].numpy()[:, -1]
            if step < self._shortest:
                logits[:, 2] = -numpy.inf
            last = logits.argmax(-1)[:, None]
            columns.append(last)
            ended |= last == 2
            if ended.all():
                break
            for name, value in values.items():
                if name.startswith("present") and (step == 0 or ".decoder." in name):
                    past = name.replace("present", "past_key_values")
                    binding.bind_ortvalue_input(past, value)
        return numpy.concatenate(columns, 1)

    def tokens(self, ids):
        """Each row up to its first </s>, which is added where there is none."""
        return [[*row[: row.index(2)], 2] if 2 in row else [*row, 2] for row in ids.tolist()]


ENGINES = {each.module: each for each in (CTranslate2, OnnxRuntime)}


class Worker:
    """What a process does for peers.py."""

    def load(self, engine, checkpoint, data, source, target, kind, cuda, threads, generation):
        """Convert a checkpoint and load it. Returns the engine's version, and the bytes used before
        the model was loaded."""
        import importlib

        chosen, before = ENGINES[engine], peak_resident()
        with tempfile.TemporaryDirectory() as folder:
            copy, model = legible(checkpoint, folder), os.path.join(folder, "model")
            chosen.convert(copy, data, source, target, model, kind)
            self._model = chosen(model, kind, cuda, threads, generation)
        self._cuda = cuda
        return {"version": importlib.import_module(engine).__version__, "before": before}

    def decode(self, rows, limit, beam):
        """Decode a batch; turning token ids into symbols and back is not timed."""
        inputs = self._model.inputs(rows)
        started, used = time.perf_counter(), time.process_time()
        outputs = self._model.run(inputs, limit, beam)
        answer = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
        answer.update(tokens=self._model.tokens(outputs), peak=peak_resident())
        until_at_rest()  # whoever decodes next shall not pay for threads that spin here
        return answer


def serve():
    """Answer orders: {"do": method of Worker, **arguments}."""
    worker, answers = Worker(), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"result": getattr(worker, order.pop("do"))(**order)}
        except Exception as error:  # whatever it raises is reported to the caller
            answer = {"error": f"{type(error).__name__}: {error}"}
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve()
