"""What commands read of a converted folder."""

from .described import Described, describe


def described(path: str, source: str | None, target: str | None) -> Described:
    """``describe`` for a checkpoint in a converted folder."""
    description = describe([path], source, target)
    assert description is not None
    return description
