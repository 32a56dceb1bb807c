"""Small pictures as text: one line a picture, one number from 0 to 255 a pixel, in raster order.

The pictures come with scikit-image: 100 faces of 25 x 25 pixels (a subset of Labeled Faces in the
Wild) and photos. The low picture is the mean of squares of the high one, enlarged to its size
again, so that a pixel and its place in the low picture have the same position in both lines. Some
faces are held out to validate and to test; patches of photos, at several scales, only add to the
training.
"""

import pathlib
from collections.abc import Iterator, Sequence

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
LARGEST_SIDE = 32  # whose pixels are positions of the model

Picture = np.ndarray


def load() -> tuple[list[Picture], list[Picture]]:
    """The faces and the photos of scikit-image, in grey: float [H, W] from 0 to 1."""
    try:
        from skimage import color, data, util
    except ImportError as error:
        raise ValueError("pictures need scikit-image: pip install scikit-image") from error
    photos = [util.img_as_float32(getattr(data, name)()) for name in PHOTOS]
    grey = [color.rgb2gray(photo[..., :3]) if photo.ndim == 3 else photo for photo in photos]
    return list(data.lfw_subset()[:FACES]), grey


def pixels(picture: Picture, side: int) -> Picture:
    """A square picture as uint8 [side, side]."""
    if picture.shape != (side, side):
        from skimage.transform import resize

        picture = resize(picture, (side, side), anti_aliasing=True)
    return np.clip(np.rint(picture * 255), 0, 255).astype(np.uint8)


def variants(face: Picture, side: int) -> Iterator[Picture]:
    """A face moved by up to a pixel, and mirrored: 8 pictures."""
    for top, left in np.ndindex(2, 2):
        part = face[top : top + NATIVE, left : left + NATIVE]
        yield from (pixels(part, side), pixels(part[:, ::-1], side))


def patches(
    photos: Sequence[Picture], count: int, side: int, rng: np.random.Generator
) -> Iterator[Picture]:
    """Random squares of the photos with something in them, some several times reduced."""
    made = 0
    while made < count:
        photo = photos[rng.integers(len(photos))]
        size = int(rng.integers(side, min(*photo.shape, int(side * LARGEST_SCALE)) + 1))
        top, left = (int(rng.integers(length - size + 1)) for length in photo.shape)
        part = pixels(photo[top : top + size, left : left + size], side)
        if part.std() >= 255 * LEAST_CONTRAST:
            made += 1
            yield part[:, :: rng.choice((-1, 1))]


def lowered(picture: Picture, factor: int) -> Picture:
    """The mean of each square of ``factor`` x ``factor`` pixels in all of its pixels."""
    side = len(picture) // factor
    means = picture.reshape(side, factor, side, factor).mean((1, 3))
    return np.rint(means).astype(np.uint8).repeat(factor, 0).repeat(factor, 1)


def line(picture: Picture) -> str:
    """A picture's line of text."""
    return " ".join(map(str, picture.reshape(-1).tolist()))


def write(folder: pathlib.Path, side: int, factor: int, count: int, test: int, seed: int) -> None:
    """Write {train,valid,test}.{low,high} and dict.txt.

    Args:
        side: width of the high picture.
        factor: width of a square, in pixels.
        count: patches of photos.
        test: faces to test with.
    """
    if not 1 <= factor <= side <= LARGEST_SIDE or side % factor:
        raise ValueError(f"SIDE {side}: must be a multiple of FACTOR {factor}, up to 32")
    if not 1 <= test <= FACES // 2:
        raise ValueError(f"TEST: {test} must be from 1 to {FACES // 2}")
    rng = np.random.default_rng(seed)
    faces, photos = load()
    order, held = rng.permutation(FACES), test + max(1, test // 4)
    training = [picture for i in order[held:] for picture in variants(faces[i], side)]
    training += patches(photos, count, side, rng)
    unmoved = [pixels(faces[i][:NATIVE, :NATIVE], side) for i in order[:held]]
    splits = {"train": training, "test": unmoved[:test], "valid": unmoved[test:]}
    for name, pictures in splits.items():
        write_lines(folder / f"{name}.low", (line(lowered(each, factor)) for each in pictures))
        write_lines(folder / f"{name}.high", map(line, pictures))
        print(f"{len(pictures)} pictures for {name}")
    write_lines(folder / "dict.txt", (f"{value} 1" for value in range(256)))
