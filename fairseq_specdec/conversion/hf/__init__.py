"""From a model folder of transformers to a checkpoint, dictionary and subword model of fairseq."""
