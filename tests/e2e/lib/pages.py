# SPDX-License-Identifier: Apache-2.0
"""The commands that pages of the documentation show, for scenarios that run them."""
import os
import sys

from .scenario import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from page_commands import commands_of  # noqa: E402, F401
