"""Puts the shared library into the wheel, where $TIDEFS_TREE says that it is built.

Without the variable the wheel is Python alone, and uses the library that is installed or that
$TIDEFS_RESCALE_LIBRARY names.
"""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Library(BuildHookInterface):
    def initialize(self, version, build_data):
        tree = os.environ.get("TIDEFS_TREE")
        if version != "standard" or not tree:
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['TIDEFS_PLATFORM']}"
        library = Path(tree) / "lib" / "libtidefs_rescale.so"
        build_data["force_include"] = {str(library): "tidefs_rescale/libtidefs_rescale.so"}
