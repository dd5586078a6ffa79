"""Writes the profile of Snakemake with which `snakemake --profile tidefs` is all that has to be said."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

PROFILE = """\
# Tidefs is told of the workflow; see snakemake-logger-plugin-tidefs.
logger: [tidefs]
scheduler: tidefs
# All hosts see a file as soon as it is written.
latency-wait: 0
"""


def folder() -> Path:
    """Where Snakemake looks for the profiles of this user."""
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "snakemake" / "tidefs"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m snakemake_logger_plugin_tidefs", description=__doc__)
    parser.add_argument("--folder", type=Path, default=folder(), help="default: %(default)s")
    place = parser.parse_args().folder / "profile.yaml"
    if place.exists() and place.read_text() != PROFILE:
        print(f"{place} is there and says otherwise; remove it first, or give --folder", file=sys.stderr)
        return 1
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(PROFILE)
    print(f"{place}: snakemake --profile tidefs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
