#!/usr/bin/python3
"""Makes overlapping tiles of one made-up piece of sky, as a survey telescope would.

Each tile is a gnomonic (TAN) image with its own centre and a small rotation, and with
its own sky brightness: a level and a slope.  Stars and galaxies are common to all tiles,
so that overlaps must agree once the background model has removed what differs.

The same options make the same bytes.  Every tile has its own random numbers, drawn from
the seed and its place in the grid.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))
from fits import write_image
from stages import positive

CENTRE = (210.8, 54.35)  # right ascension and declination of the field, degrees
ROTATION_MAX = 3.0  # degrees
SKY_LEVEL, SKY_SPREAD = 200.0, 50.0
NOISE = 3.0
STAR_SIGMA = 1.5  # pixels
STARS_PER_PIXEL = 400 / (4 * 4 * 256 * 256)
GALAXIES_PER_STAR = 0.05


class Plane:
    """The tangent plane at one point of the sky.

    With the unit vector to the point and the unit vectors to its east and north, the
    projection of a direction is its components along east and north over that along
    the point; the way back is the sum of the three.
    """

    def __init__(self, ra: float, dec: float):
        a, d = np.radians([ra, dec])
        self.point = np.array([np.cos(d) * np.cos(a), np.cos(d) * np.sin(a), np.sin(d)])
        self.east = np.array([-np.sin(a), np.cos(a), 0.0])
        self.north = np.cross(self.point, self.east)

    def to_sky(self, xi, eta) -> np.ndarray:
        """Directions (unit vectors) of plane coordinates in degrees."""
        xi, eta = (np.radians(np.atleast_1d(v))[:, None] for v in (xi, eta))
        directions = self.point + xi * self.east + eta * self.north
        return directions / np.linalg.norm(directions, axis=1, keepdims=True)

    def from_sky(self, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Plane coordinates in degrees of directions."""
        depth = directions @ self.point
        return (
            np.degrees(directions @ self.east / depth),
            np.degrees(directions @ self.north / depth),
        )


def ra_dec(direction: np.ndarray) -> tuple[float, float]:
    x, y, z = direction
    return float(np.degrees(np.arctan2(y, x)) % 360), float(np.degrees(np.arcsin(z)))


def make_sky(rng, field: Plane, width: float, height: float, count: int):
    """Stars and galaxies: directions, fluxes, and the sigmas and angle of each shape."""
    galaxies = int(count * GALAXIES_PER_STAR)
    total = count + galaxies
    xi = (rng.random(total) - 0.5) * width * 1.2
    eta = (rng.random(total) - 0.5) * height * 1.2
    flux = 10 ** rng.uniform(2, 4, total)
    long = np.full(total, STAR_SIGMA)
    long[count:] = rng.uniform(4, 12, galaxies)
    flux[count:] = rng.uniform(50, 400, galaxies)
    short = long.copy()
    short[count:] *= rng.uniform(0.3, 0.9, galaxies)
    angle = rng.uniform(0, np.pi, total)
    return field.to_sky(xi, eta), flux, long, short, angle


def add_source(image, x, y, flux, long, short, angle) -> None:
    """Adds one gaussian, cut off at five sigmas, where it meets the image."""
    height, width = image.shape
    reach = int(5 * long)
    x0, x1 = max(0, int(x) - reach), min(width, int(x) + reach + 1)
    y0, y1 = max(0, int(y) - reach), min(height, int(y) + reach + 1)
    if x0 >= x1 or y0 >= y1:
        return
    dy, dx = np.mgrid[y0:y1, x0:x1].astype("f8")
    dx, dy = dx - x, dy - y
    along = dx * np.cos(angle) + dy * np.sin(angle)
    across = dy * np.cos(angle) - dx * np.sin(angle)
    image[y0:y1, x0:x1] += flux * np.exp(-((along / long) ** 2 + (across / short) ** 2) / 2)


def make_tile(path: Path, rng, size: int, scale: float, direction, sky) -> None:
    """Writes the tile whose centre lies in `direction`; `scale` is in degrees per pixel."""
    rotation = rng.uniform(-ROTATION_MAX, ROTATION_MAX)
    level = rng.normal(SKY_LEVEL, SKY_SPREAD)
    slope_x, slope_y = rng.normal(0, SKY_SPREAD / size / 4, 2)
    y, x = np.mgrid[0:size, 0:size] - (size - 1) / 2
    image = level + slope_x * x + slope_y * y + rng.normal(0, NOISE, (size, size))

    ra, dec = ra_dec(direction)
    directions, *shapes = sky
    xi, eta = Plane(ra, dec).from_sky(directions)
    cos, sin = np.cos(np.radians(rotation)), np.sin(np.radians(rotation))
    # East is to the left: the first axis runs against xi.
    pixel_x = -(xi * cos + eta * sin) / scale + (size - 1) / 2
    pixel_y = (eta * cos - xi * sin) / scale + (size - 1) / 2
    for source in zip(pixel_x, pixel_y, *shapes):
        add_source(image, *source)

    reference = (size + 1) / 2
    write_image(
        path,
        image,
        {
            "CTYPE1": "RA---TAN",
            "CTYPE2": "DEC--TAN",
            "CRVAL1": ra,
            "CRVAL2": dec,
            "CRPIX1": reference,
            "CRPIX2": reference,
            "CDELT1": -scale,
            "CDELT2": scale,
            "CROTA2": rotation,
            "EQUINOX": 2000.0,
        },
    )


def make_tiles(folder: Path, nx: int, ny: int, size: int, overlap: float, seed: int) -> None:
    """Fills `folder` with nx times ny tiles of size x size pixels of one arc second."""
    scale = 1 / 3600
    step = size * (1 - overlap) * scale
    field = Plane(*CENTRE)
    stars = max(20, int(STARS_PER_PIXEL * nx * ny * size * size))
    sky = make_sky(np.random.default_rng(seed), field, nx * step, ny * step, stars)
    for j in range(ny):
        for i in range(nx):
            place = field.to_sky((i - (nx - 1) / 2) * step, (j - (ny - 1) / 2) * step)[0]
            rng = np.random.default_rng([seed, j, i])
            make_tile(folder / f"tile_{j:03d}_{i:03d}.fits", rng, size, scale, place, sky)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write; made if it does not exist")
    parser.add_argument("--nx", type=positive, default=4, help="tiles in a row")
    parser.add_argument("--ny", type=positive, default=4, help="rows of tiles")
    parser.add_argument("--size", type=positive, default=256, help="pixels along a side")
    parser.add_argument("--overlap", type=float, default=0.15, help="share of a side, below 1")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not 0 <= options.overlap < 1:
        parser.error("--overlap must be at least 0 and below 1")
    options.folder.mkdir(parents=True, exist_ok=True)
    make_tiles(
        options.folder, options.nx, options.ny, options.size, options.overlap, options.seed
    )


if __name__ == "__main__":
    main()
