"""Small pictures as text: one line a picture, one number from 0 to 255 a pixel, in raster order.

The pictures come with scikit-image: 100 faces of 25 x 25 pixels (a subset of Labeled Faces in the
Wild) and photos. The low picture is the mean of squares of the high one, enlarged to its size
again, so that a pixel and its place in the low picture have the same position in both lines. Some
faces are held out to validate and to test; patches of photos, at several scales, only add to the
training.
"""

import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from text_files import write_lines

FACES = 100
PHOTOS = (
    "astronaut", "brick", "camera", "chelsea", "clock", "coffee", "coins", "grass", "gravel",
    "moon", "rocket",
)  # fmt: skip
LARGEST_SCALE = 6.0
LEAST_CONTRAST = 0.06  # standard deviation; flat patches teach to repeat the pixel before
NATIVE = 24  # of a face, less the pixel by which it may be moved

Picture = np.ndarray


def to_grey(picture: Picture) -> Picture:
    """Any picture as float32 [H, W] from 0 to 1."""
    values = np.asarray(picture, dtype=np.float32)
    if np.asarray(picture).dtype == np.uint8:
        values = values / 255
    if values.ndim == 3:
        values = values[..., :3] @ np.array([0.2125, 0.7154, 0.0721], dtype=np.float32)
    return values


def quantise(picture: Picture) -> Picture:
    """Float [H, W] from 0 to 1 as uint8."""
    return np.clip(np.rint(picture * 255), 0, 255).astype(np.uint8)


def shrink(picture: Picture, factor: int) -> Picture:
    """The mean of each square of ``factor`` x ``factor`` pixels: uint8 [H, W] to uint8."""
    height, width = picture.shape
    squares = picture.reshape(height // factor, factor, width // factor, factor)
    return np.rint(squares.mean((1, 3))).astype(np.uint8)


def enlarge(picture: Picture, factor: int) -> Picture:
    """Each pixel as a square of ``factor`` x ``factor``."""
    return picture.repeat(factor, 0).repeat(factor, 1)


def line(picture: Picture) -> str:
    """A picture's line of text."""
    return " ".join(map(str, picture.reshape(-1).tolist()))


def resized(picture: Picture, side: int) -> Picture:
    """A square picture of ``side`` pixels, float."""
    if picture.shape == (side, side):
        return picture
    from skimage.transform import resize

    return resize(picture, (side, side), anti_aliasing=True).astype(np.float32)


def variants(face: Picture, side: int) -> Iterator[Picture]:
    """A face moved by up to a pixel, and mirrored: 8 pictures."""
    for top in (0, 1):
        for left in (0, 1):
            part = face[top : top + NATIVE, left : left + NATIVE]
            for picture in (part, part[:, ::-1]):
                yield quantise(resized(picture, side))


def patches(
    photos: Sequence[Picture], count: int, side: int, rng: np.random.Generator
) -> Iterator[Picture]:
    """Random squares of the photos with something in them, some several times reduced."""
    made = 0
    while made < count:
        photo = photos[rng.integers(len(photos))]
        largest = min(min(photo.shape), int(side * LARGEST_SCALE))
        size = int(rng.integers(side, largest + 1))
        top = int(rng.integers(photo.shape[0] - size + 1))
        left = int(rng.integers(photo.shape[1] - size + 1))
        part = resized(photo[top : top + size, left : left + size], side)
        if part.std() >= LEAST_CONTRAST:
            made += 1
            yield quantise(part[:, :: rng.choice((-1, 1))])


def load() -> tuple[list[Picture], list[Picture]]:
    """The faces and the photos of scikit-image, in grey."""
    from skimage import data

    faces = [to_grey(face) for face in data.lfw_subset()[:FACES]]
    return faces, [to_grey(getattr(data, name)()) for name in PHOTOS]


def write_split(folder: pathlib.Path, name: str, pictures: Iterable[Picture], factor: int) -> int:
    """Write ``name``.low and ``name``.high; the number of pictures."""
    low, high = [], []
    for picture in pictures:
        low.append(line(enlarge(shrink(picture, factor), factor)))
        high.append(line(picture))
    write_lines(folder / f"{name}.low", low)
    write_lines(folder / f"{name}.high", high)
    return len(high)


def write(folder: pathlib.Path, side: int, factor: int, count: int, test: int, seed: int) -> None:
    """Write train, valid, test and dict.txt.

    Args:
        side: width of the high picture.
        factor: width of a square, in pixels.
        test: faces to test with.
    """
    if factor < 1:
        raise ValueError(f"FACTOR: {factor} must be at least 1")
    if side < factor or side % factor:
        raise ValueError(f"SIDE: {side} must be a multiple of FACTOR {factor}")
    if not 1 <= test <= FACES // 2:
        raise ValueError(f"TEST: {test} must be from 1 to {FACES // 2}")
    rng = np.random.default_rng(seed)
    faces, photos = load()
    order = rng.permutation(FACES)
    valid = max(1, test // 4)
    held, kept = order[: test + valid], order[test + valid :]

    def unmoved(chosen: Iterable[int]) -> Iterator[Picture]:
        return (quantise(resized(faces[i][:NATIVE, :NATIVE], side)) for i in chosen)

    training = [picture for i in kept for picture in variants(faces[i], side)]
    training += patches(photos, count, side, rng)
    trained = write_split(folder, "train", training, factor)
    write_split(folder, "test", unmoved(held[:test]), factor)
    write_split(folder, "valid", unmoved(held[test:]), factor)
    write_lines(folder / "dict.txt", (f"{value} 1" for value in range(256)))
    print(f"{trained} pictures to train, {valid} to validate, {test} to test")
