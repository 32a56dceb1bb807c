"""Settings by grammar: what fairseq would pass to ``eval`` is a literal or is refused."""

from fairseq_specdec.compat.literals import NotLiteralError, parse_literal

PLAIN = (int, float, bool, str, bytes, type(None), list, tuple, dict, set, complex, type(...))
LEAVES = ("1", "2.5", "'a'", "None", "True", "[1, 2]", "(512, 3)", "{'a': 1}", "b'x'", "1j", "...")
WRAPS = (
    "[{}]", "({},)", "{{'k': {}}}", "{} + {}", "{} * {}", "-{}", "({})", "[{}] * 3", "{}.real",
    "{}[0]", "print({})", "lambda: {}", "[x for x in {}]", "f'{{{}}}'", "{} if {} else {}",
    "__import__('os').system({})", "{} ** {}", "(x := {})", "*{}", "{}\x00", "'''{}'''",
)  # fmt: skip


def expression(random, depth):
    if depth == 0:
        return random.choice(LEAVES)
    wrap = random.choice(WRAPS)
    return wrap.format(*(expression(random, depth - 1) for _ in range(wrap.count("{}"))))


def test_expressions(fuzz):
    for seed in fuzz.seeds():
        text = expression(fuzz.random(seed), seed % 6)
        try:
            value = parse_literal(text)
        except NotLiteralError:
            fuzz.counts["refused"] += 1
            continue
        fuzz.counts["read"] += 1
        assert isinstance(value, PLAIN), (seed, text)
