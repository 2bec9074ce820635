# SPDX-License-Identifier: Apache-2.0
"""CPython against musl instead of glibc, built here from Debian's sources, once: no package has one.

zlib and libffi, which two modules need, are built from Debian's sources, too, and linked in.
"""
import os
import shutil
import subprocess

SOURCES = ("zlib", "libffi", "python3.11")
BUILT = "built"
# In the folder with the unpacked sources. musl-gcc names the compiler's own C library and has no headers of the kernel. The interpreter is
# not optimised by a profile, which would take half an hour.
STEPS = r"""
set -e
here=$PWD
mkdir -p kernel
ln -sfn /usr/include/linux /usr/include/asm-generic kernel/
ln -sfn /usr/include/$(gcc -print-multiarch)/asm kernel/asm
cat > cc << CC
#!/bin/sh
case \$1 in *-print-multiarch) gcc -print-multiarch | sed s/gnu/musl/ ;; *) exec musl-gcc "\$@" -idirafter $here/kernel ;; esac
CC
chmod +x cc
export CC=$here/cc CFLAGS="-O2 -fPIC" MAKEFLAGS=-j$(nproc)
cd "$here/zlib"
./configure --prefix="$here/lib" --static
make libz.a
make install
cd "$here/libffi"
./configure --prefix="$here/lib" --disable-shared --with-pic --disable-docs --disable-multi-os-directory
make
make install
cd "$here/python3.11"
./configure CPPFLAGS="-I$here/lib/include" LDFLAGS="-L$here/lib/lib" --without-ensurepip --disable-test-modules
make
"""


def unpack(folder, name):
    """The upstream's part of the source: Debian's changes are for Debian."""
    archive = next(f for f in sorted(os.listdir(folder)) if f.startswith(name + "_") and ".orig.tar." in f and not f.endswith(".asc"))
    target = os.path.join(folder, name)
    os.makedirs(target, exist_ok=True)
    subprocess.run(["tar", "-xf", os.path.join(folder, archive), "-C", target, "--strip-components=1"], check=True)


def build(download, folder, say):
    """→ the interpreter. `download`: a function that puts the sources of packages into a folder. RuntimeError: why there is none."""
    python = os.path.join(folder, "python3.11", "python")
    if os.path.exists(os.path.join(folder, BUILT)):
        return python
    if not shutil.which("musl-gcc"):
        raise RuntimeError("musl: no musl-gcc: install musl-tools")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    say("musl: its CPython is built, which takes some minutes")
    download(SOURCES, folder)
    for name in SOURCES:
        unpack(folder, name)
    with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
        done = subprocess.run(["bash", "-c", STEPS], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    used = subprocess.run([python, "-c", "import asyncio, ctypes, hashlib, zlib"], capture_output=True, text=True) if done.returncode == 0 else done
    if used.returncode:
        raise RuntimeError(f"musl: the build failed, see {folder}/log")
    open(os.path.join(folder, BUILT), "w").close()
    return python
