"""The little of the FITS format that tiles and mosaics need: one image, no extension.

A file is a header of 80-byte cards, padded with spaces to a multiple of 2880 bytes,
and a data unit of big-endian numbers, padded with zeros to the same multiple.
"""

from pathlib import Path

import numpy as np

BLOCK = 2880
CARD = 80

# The type of a pixel by BITPIX.
PIXEL_TYPES = {8: ">u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}


def card(keyword: str, value) -> bytes:
    """One header card in fixed format."""
    if isinstance(value, bool):
        text = f"{'T' if value else 'F':>20}"
    elif isinstance(value, str):
        text = f"'{value:<8}'"
    elif isinstance(value, int):
        text = f"{value:>20}"
    else:
        text = f"{value:>20.12G}"
    return f"{keyword:<8}= {text}".ljust(CARD).encode("ascii")


def write_image(path: Path, pixels: np.ndarray, keywords: dict) -> None:
    """Writes one image of 32-bit floats; `pixels[0]` is the lowest row."""
    height, width = pixels.shape
    cards = [
        card("SIMPLE", True),
        card("BITPIX", -32),
        card("NAXIS", 2),
        card("NAXIS1", width),
        card("NAXIS2", height),
        *(card(keyword, value) for keyword, value in keywords.items()),
        b"END".ljust(CARD),
    ]
    header = b"".join(cards)
    data = pixels.astype(PIXEL_TYPES[-32]).tobytes()
    with open(path, "wb") as file:
        file.write(header + b" " * (-len(header) % BLOCK))
        file.write(data + b"\0" * (-len(data) % BLOCK))


def read_header(path: Path) -> tuple[dict[str, str], int]:
    """The cards of the first header as text, and where its data unit starts."""
    keywords = {}
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            if len(block) < BLOCK:
                break
            for start in range(0, BLOCK, CARD):
                text = block[start : start + CARD].decode("ascii", errors="replace")
                keyword = text[:8].rstrip()
                if keyword == "END":
                    return keywords, file.tell()
                if text[8:10] == "= ":
                    keywords[keyword] = text[10:].split("/")[0].strip()
    raise ValueError(f"{path} is not a FITS file: its header has no end")


def pixels_of(path: Path) -> np.ndarray:
    """The image's pixels as they lie in the file, without reading them yet."""
    keywords, start = read_header(path)
    shape = int(keywords["NAXIS2"]), int(keywords["NAXIS1"])
    return np.memmap(path, PIXEL_TYPES[int(keywords["BITPIX"])], "r", start, shape)


def difference(left: Path, right: Path) -> str | None:
    """How the pixels of two images differ, bit by bit; None when they do not.

    Headers are left out, for programs write dates into them.
    """
    a, b = pixels_of(left), pixels_of(right)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"one is {a.shape} of {a.dtype}, the other {b.shape} of {b.dtype}"
    bits = f">u{a.dtype.itemsize}"
    count, first = 0, None
    # Row by row, so that a large mosaic needs little memory.
    for row, (one, other) in enumerate(zip(a, b)):
        columns = np.flatnonzero(one.view(bits) != other.view(bits))
        count += columns.size
        if columns.size and first is None:
            column = int(columns[0])
            first = f"first in row {row}, column {column}: {one[column]} and {other[column]}"
    return f"{count} of {a.size} pixels differ, {first}" if count else None
