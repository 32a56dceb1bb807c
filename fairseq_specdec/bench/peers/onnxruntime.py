"""ONNX Runtime: optimum's export of the same model, decoded greedily by a loop of our own.

``generate`` of optimum would cost more than the network: the loop feeds a step's keys and values to
the next step without a copy.
"""

import os
import shutil
import tempfile
from typing import Any

from . import hugging_face
from .transformers import padded, until_end

_ENCODER, _DECODER = "encoder_model.onnx", "decoder_model_merged.onnx"


def convert(checkpoint: str, data: str, source: str, target: str, folder: str, kind: str) -> None:
    """Write encoder and decoder; int8 has 7-bit weights by column, rows rounded as they come."""
    from optimum.onnxruntime import ORTModelForSeq2SeqLM

    with tempfile.TemporaryDirectory(prefix="specdec-bench-") as model:
        hugging_face.convert(checkpoint, hugging_face.dictionary_size(data, source), model)
        exported = ORTModelForSeq2SeqLM.from_pretrained(model, export=True, use_merged=True)
    exported.save_pretrained(folder)
    if kind == "int8":
        for name in (_ENCODER, _DECODER):
            _quantise(os.path.join(folder, name))


def _quantise(path: str) -> None:
    """In place, as ONNX Runtime's guide advises for processors without VNNI."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    small = path + ".int8"
    quantize_dynamic(
        path, small, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True,
        extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True},
    )  # fmt: skip
    shutil.move(small, path)


def version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)


class Model:
    """Two sessions and the loop over them."""

    def __init__(
        self, folder: str, kind: str, cuda: bool, threads: int, generation: dict[str, Any]
    ) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        provider = ["CUDAExecutionProvider" if cuda else "CPUExecutionProvider"]
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(os.path.join(folder, name), options, providers=provider)
            for name in (_ENCODER, _DECODER)
        )
        self._shortest = generation.get("min_len", 1)
        self._past = {
            each.name: each.shape
            for each in self._decoder.get_inputs()
            if each.name.startswith("past_key_values")
        }
        self._outputs = [each.name for each in self._decoder.get_outputs()]

    def inputs(self, rows: list[list[int]]) -> Any:
        return [each.numpy() for each in padded(rows)]

    def run(self, inputs: Any, limit: int, beam: int) -> Any:
        """Decode until every row has ended, ``limit`` tokens and </s> at most; [rows][steps]."""
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
        last = numpy.full((rows, 1), 2, numpy.int64)
        ended = numpy.zeros((rows, 1), bool)
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

    def tokens(self, ids: Any) -> list[list[int]]:
        return [until_end(row) for row in ids.tolist()]
