"""Text files of one sentence a line."""

from collections.abc import Iterable, Iterator

from fairseq_specdec.io.atomic import PathLike, replacing


def write_lines(path: PathLike, lines: Iterable[str]) -> None:
    """Write one string a line, in UTF-8, whole or not at all; the folder is made if need be."""
    with replacing(path, make_folder=True) as stream:
        stream.writelines(line + "\n" for line in lines)


def each_line(path: PathLike) -> Iterator[str]:
    """Lines of a UTF-8 file without their ends; only a line feed ends a line."""
    try:
        with open(path, encoding="utf-8", newline="\n") as stream:
            for line in stream:
                yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8; convert it") from error


def read_lines(path: PathLike) -> list[str]:
    return list(each_line(path))
