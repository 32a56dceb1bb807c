"""Command lines that specdec-accelerate and the recipes share."""

from fairseq_specdec.commands.words import distill_flags, flags, one_pair, training_flags


def test_own_flags_replace_those_of_every_training_and_distillation():
    words = flags(["--lr", 2, "--share"], lr=1, warmup_updates=5)
    assert words == ["--lr", "2", "--share", "--warmup-updates", "5"]
    given = training_flags(["--clip-norm", 10, "--lr", 1], "folder", 100)
    assert given.count("--clip-norm") == 1 and given[:4] == ["--clip-norm", "10", "--lr", "1"]
    assert given[given.index("--warmup-updates") + 1] == "10"
    words = distill_flags(["--max-len-b", 7], "plugin", "t.pt", "out", one_pair("a", "b"), 5)
    assert words.count("--max-len-b") == 1 and words[words.index("--max-len-b") + 1] == "7"
    assert words[words.index("--max-len-a") + 1] == "1.5"
