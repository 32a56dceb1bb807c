"""Lines that a user may well have in a file, and a hostile one surely has."""

LINES = {
    "nothing": "",
    "blanks": " \t\u2003\u3000",
    "one token": "w1",
    "unknown only": "<unk> <unk> <unk>",
    "never seen": "not a word of it",
    "an end inside": "w1 </s> w2 w3",
    "an end alone": "</s>",
    "a start": "<s> w1 <s>",
    "padding inside": "<pad> w1 <pad> w2 <pad>",
    "padding alone": "<pad>",
    "all special": "<s> <pad> </s> <unk> w5",
    "control characters": "w1\x00 w2\x07 \x1b[31m w3 \x7f\x85w4",
    "line ends": "w1\r\nw2\vw3\fw4\u2028w5\u2029w6",
    "right to left": "\u202ew3 שלום\u202c مرحبا w4",
    "Chinese, Japanese, Korean": "你好 世界。 こんにちは 안녕 w6",
    "a mark, joiners, emoji": "\ufeffw1 \u200bw2 👩\u200d👩\u200d👧 e\u0301",
    "half a pair": "w1 \ud83d w2",
    "one long word": "x" * 10_000,
    "long": "w1 w2 w3 " * 20,
}
