"""Damaged bytes, for every fuzzer of files and requests."""

NUMBERS = (0, 1, -1, 2, 34, 255, 2**15, 2**16 - 1, 2**31 - 1, -(2**31), 2**32, 2**62, -(2**63))
TABLES = 30_000  # bytes at the ends of a file, where its header and directory are


def damaged(random, data, pieces=()):
    """Bytes with one to four changes: one replaced, a number written, some put in (one of
    ``pieces``), taken out or repeated, or the rest cut off."""
    for _ in range(random.randint(1, 4)):
        near = random.randrange(min(len(data), TABLES) + 1)
        at = random.choice((random.randrange(len(data) + 1), near, len(data) - near))
        end = at + random.randint(1, 16)
        number = random.choice(NUMBERS).to_bytes(8, "little", signed=True)
        number = number[: random.choice((1, 2, 4, 8))]
        some = bytes(random.randrange(256) for _ in range(3))
        in_place = random.choice((some[:1], number))
        in_place = data[:at] + in_place + data[at + len(in_place) :]
        data = random.choice((
            in_place, in_place, in_place, in_place,
            data[:at] + random.choice(pieces or (some,)) + data[at:],
            data[:at] + data[end:],
            data[:end] + data[at:],
            data[:at],
        ))  # fmt: skip
    return data
