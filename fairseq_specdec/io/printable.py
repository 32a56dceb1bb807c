"""Text of files and of errors in messages."""


def printable(text: str) -> str:
    """``text`` with control characters, which a terminal would obey, as escapes (``\\x1b``)."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def flat_message(error: BaseException, longest: int | None = None) -> str:
    """The message of an error in one line, every run of white space a blank."""
    return " ".join(str(error).split())[:longest]
