#!/usr/bin/python3
"""Tests of the workflows' own code: that it is exact, and that no failure goes unseen."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE / "montage"), str(HERE / "blast")]
import blast
import fits
import tiles
from stages import Failure, Stages, Task


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Fits(InFolder):
    def write(self, name: str, pixels, keywords=None) -> Path:
        fits.write_image(self.folder / name, pixels, keywords or {})
        return self.folder / name

    def test_pixels_survive(self):
        pixels = np.arange(35, dtype="f4").reshape(5, 7)
        path = self.write("a.fits", pixels, {"CRVAL1": 1.5, "CTYPE1": "RA---TAN"})
        self.assertEqual(path.stat().st_size % fits.BLOCK, 0)
        np.testing.assert_array_equal(fits.pixels_of(path), pixels)
        self.assertEqual(float(fits.read_header(path)[0]["CRVAL1"]), 1.5)

    def test_headers_may_differ_but_pixels_may_not(self):
        pixels = np.full((5, 7), np.nan, dtype="f4")
        left = self.write("a.fits", pixels)
        self.assertIsNone(fits.difference(left, self.write("b.fits", pixels, {"EQUINOX": 2000.0})))
        pixels[3, 2] = 1
        found = fits.difference(left, self.write("c.fits", pixels))
        self.assertIn("1 of 35 pixels differ, first in row 3, column 2", found)

    def test_the_sign_of_zero_counts(self):
        left = self.write("a.fits", np.zeros((2, 2)))
        self.assertIsNotNone(fits.difference(left, self.write("b.fits", -np.zeros((2, 2)))))

    def test_shapes_count(self):
        left = self.write("a.fits", np.zeros((2, 3)))
        self.assertIsNotNone(fits.difference(left, self.write("b.fits", np.zeros((3, 2)))))


class Sky(InFolder):
    def test_projection_and_back(self):
        plane = tiles.Plane(210.8, 54.35)
        xi, eta = np.array([0.0, 0.3, -1.2]), np.array([0.0, -0.7, 0.4])
        back = plane.from_sky(plane.to_sky(xi, eta))
        np.testing.assert_allclose(back, [xi, eta], atol=1e-12)

    def test_the_centre_of_a_plane_is_its_point(self):
        direction = tiles.Plane(210.8, -54.35).to_sky(0.0, 0.0)[0]
        np.testing.assert_allclose(tiles.ra_dec(direction), (210.8, -54.35))

    def test_same_options_same_bytes(self):
        contents = []
        for name in ("one", "two"):
            folder = self.folder / name
            folder.mkdir()
            tiles.make_tiles(folder, nx=2, ny=1, size=32, overlap=0.2, seed=7)
            contents.append([path.read_bytes() for path in sorted(folder.iterdir())])
        self.assertEqual(len(contents[0]), 2)
        self.assertEqual(contents[0], contents[1])
        self.assertNotEqual(contents[0][0], contents[0][1])


class Split(InFolder):
    def test_pieces_hold_every_record_once_in_order(self):
        whole = b"".join(b">s%d\n%s\n" % (i, b"ACGT" * (i % 7 + 1)) for i in range(50))
        source = self.folder / "whole.fa"
        source.write_bytes(whole)
        pieces = [self.folder / f"{i}.fa" for i in range(4)]
        blast.split(source, pieces)
        self.assertEqual(b"".join(piece.read_bytes() for piece in pieces), whole)
        self.assertTrue(all(piece.stat().st_size > len(whole) / 8 for piece in pieces))

    def test_bases_leave_out_titles_and_line_ends(self):
        self.assertEqual(blast.bases(b">ACGT title\nACGT\nAC\n"), 6)


class Run(InFolder):
    def run_stage(self, *tasks: Task, **settings) -> Stages:
        stages = Stages(self.folder, jobs=2, **settings)
        with contextlib.redirect_stdout(io.StringIO()):
            stages.run("stage", tasks)
        return stages

    def test_counts_what_was_written(self):
        stages = self.run_stage(
            Task(["sh", "-c", "printf abc > a"], [Path("a")]),
            Task(lambda: (self.folder / "b").write_text("de"), [Path("b")]),
        )
        result = stages.results[0]
        self.assertEqual((result.tasks, result.files, result.bytes), (2, 2, 5))

    def test_a_failure_shows_command_and_output(self):
        with self.assertRaises(Failure) as raised:
            self.run_stage(Task(["sh", "-c", "echo why; exit 3"]))
        self.assertIn("echo why; exit 3", str(raised.exception))
        self.assertIn("exit status 3", str(raised.exception))
        self.assertIn("\n  why", str(raised.exception))

    def test_an_error_that_is_only_printed_counts(self):
        with self.assertRaises(Failure):
            self.run_stage(Task(["echo", "ERROR"]), complaint=lambda text: "ERROR" in text)

    def test_a_missing_output_is_a_failure(self):
        with self.assertRaisesRegex(Failure, "has no file .*a"):
            self.run_stage(Task(["true"], [Path("a")]))

    def test_a_missing_program_is_a_failure(self):
        with self.assertRaisesRegex(Failure, "no program"):
            self.run_stage(Task(["no-such-program"]))

    def test_a_read_or_write_error_of_a_call_is_a_failure(self):
        with self.assertRaisesRegex(Failure, "Is a directory"):
            self.run_stage(Task(lambda: open(self.folder), [Path("a")]))

    def test_nothing_starts_after_a_failure(self):
        tasks = [Task(["false"])]
        tasks += [Task(["sh", "-c", f"sleep 0.1; touch {i}"], [Path(f"{i}")]) for i in range(50)]
        with self.assertRaises(Failure):
            self.run_stage(*tasks)
        self.assertLess(len(list(self.folder.iterdir())), 10)

    def test_dead_files_go_only_when_told(self):
        for delete_dead in (False, True):
            (self.folder / "a").touch()
            self.run_stage(Task(["true"], dead=[Path("a")]), delete_dead=delete_dead)
            self.assertEqual((self.folder / "a").exists(), not delete_dead)


if __name__ == "__main__":
    unittest.main()
