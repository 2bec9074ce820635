# SPDX-License-Identifier: Apache-2.0
"""PHP builds to test with: Debian's of several suites (../debian.py), this machine's, in place, and some for threads (threads.py)."""
import fnmatch
import glob
import os
import re

import debian
import threads
from debian import Unavailable

CACHE = os.path.join(debian.CACHE, "phps")
SUITES = {"bullseye": "7.4", "bookworm": "8.2", "trixie": "8.4", "sid+experimental": "8.5"}
BUILT = ("bullseye", "bookworm")  # those of these suites are built for threads, too
JIT = ("opcache.enable_cli=1", "opcache.file_update_protection=0", "opcache.jit_buffer_size=64M", "opcache.jit=tracing")
KINDS = ("", "-several", "-jit")  # how names of builds end
SETTINGS = ["-n", "-d", "memory_limit=-1", "-d", "zend.enable_gc=0"]


class Build(debian.Build):
    cache = CACHE
    program = "php/chains.php"


def packages(version):
    return [f"php{version}-cli", f"php{version}-fpm", f"php{version}-opcache"]


def of_suite(suite):
    root = debian.fetch(suite, packages(SUITES[suite]), CACHE)
    for path in sorted(glob.glob(f"{root}/usr/bin/php[0-9]*")):
        version = os.path.basename(path)[len("php"):]
        yield Build(f"{suite.partition('+')[0]}-{version}", version, root, [f"/usr/bin/php{version}", *SETTINGS])


def for_threads(suite):
    """As a program, with the JIT compiler where there is one, and as a library in several threads of a process."""
    version = SUITES[suite]
    folder = threads.build(suite, version, CACHE)
    yield Build(f"threads-{version}", version, None, [f"{folder}/sapi/cli/php", *SETTINGS])
    if version >= "8":
        jit = [x for setting in (f"zend_extension={folder}/modules/opcache.so", *JIT) for x in ("-d", setting)]
        yield Build(f"threads-{version}-jit", version, None, [f"{folder}/sapi/cli/php", *SETTINGS, *jit])
    yield Build(f"threads-{version}-several", version, None, [f"{folder}/embed", "threads"])


def in_place():
    for path in sorted(glob.glob("/usr/bin/php[0-9]*")):
        version = re.search(r"php(\d\.\d)$", path)
        if version:
            yield Build(f"here-{version[1]}", version[1], None, [os.path.realpath(path), *SETTINGS])


def find(wanted=()):
    """→ (builds, why others are missing). `wanted`: versions (8.2) or patterns of names (sid-*); none: all."""
    def chosen(name, version):
        return not wanted or any(w == version or fnmatch.fnmatchcase(name, w) for w in wanted)

    builds, missing = list(in_place()), []
    for make, suites, name in ((of_suite, SUITES, "{suite}-{version}"), (for_threads, BUILT, "threads-{version}")):
        for suite in suites:
            version = SUITES[suite]
            if not any(chosen(name.format(suite=suite.partition("+")[0], version=version) + kind, version) for kind in KINDS):
                continue
            try:
                builds += make(suite)
            except (Unavailable, OSError) as e:
                missing.append(str(e))
    return [b for b in builds if chosen(b.name, b.version)], missing
