"""Tasks of fairseq's multilingual, pretrained and speech models, decoded with this project."""

from fairseq_specdec.families import register_specdec

for _name in (
    "multilingual_translation",
    "speech_to_text",
    "translation_from_pretrained_bart",
    "translation_multi_simple_epoch",
):
    register_specdec(_name)
