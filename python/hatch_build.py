"""Puts the program, its server and their pages into the wheel, where $TIDEFS_TREE says that they are built.

They become the environment's bin/tidefs and lib/tidefs, so that the program finds the server as everywhere.
Without the variable the wheel is Python alone, and uses the program that is on the search path.
"""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface):
    def initialize(self, version, build_data):
        tree = os.environ.get("TIDEFS_TREE")
        if version != "standard" or not tree:
            return
        tree = Path(tree)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['TIDEFS_PLATFORM']}"
        build_data["shared_scripts"] = {str(tree / "bin" / "tidefs"): "tidefs"}
        shared = {"lib/tidefs/valkey-server", "share/doc/tidefs/LICENSES-server"}
        shared |= {str(page.relative_to(tree)) for page in (tree / "share" / "man" / "man1").iterdir()}
        build_data["shared_data"] = {str(tree / name): name for name in sorted(shared)}
