# SPDX-License-Identifier: Apache-2.0
"""PHP built for threads (ZTS), from Debian's sources, once: no package has one. As the program php, and as a library in embed.c."""
import os
import shutil
import subprocess

import debian

HERE = os.path.dirname(os.path.abspath(__file__))
BUILT = "built"
SWITCH = {"7.4": "--enable-maintainer-zts"}
STEPS = r"""
set -e
./configure --disable-all --disable-cgi --disable-phpdbg --enable-embed=shared --enable-opcache $SWITCH CFLAGS="-O2 -w"
make -j$(nproc)
"""
EMBED = "gcc -O2 -w -pthread -I. -IZend -Imain -ITSRM -o embed {program} -Llibs -lphp{major} -Wl,-rpath,$PWD/libs"


def build(suite, version, cache):
    """→ the folder in which it was built, with the programs sapi/cli/php and embed. debian.Unavailable: why there is none."""
    name = "php" + version
    folder = os.path.join(cache, "threads", version)
    source = os.path.join(folder, name)
    if not os.path.exists(os.path.join(folder, BUILT)):
        build_php(suite, version, folder, source, cache)
    program = os.path.join(HERE, "embed.c")
    run(EMBED.format(program=program, major="7" if version[0] == "7" else ""), source, folder, version)
    return source


def build_php(suite, version, folder, source, cache):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    debian.say(f"threads-{version}: PHP is built, which takes some minutes")
    debian.Apt(suite, cache).sources([os.path.basename(source)], folder)
    debian.unpack_source(folder, os.path.basename(source))
    run(STEPS, source, folder, version, SWITCH=SWITCH.get(version, "--enable-zts"))
    open(os.path.join(folder, BUILT), "w").close()


def run(steps, source, folder, version, **env):
    with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
        done = subprocess.run(["bash", "-c", steps], cwd=source, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ, **env))
    if done.returncode:
        raise debian.Unavailable(f"threads-{version}: the build failed, see {folder}/log")
