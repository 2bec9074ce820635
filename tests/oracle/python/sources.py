# SPDX-License-Identifier: Apache-2.0
"""Builds of CPython that no package has, made here from Debian's sources, once.

musl-3.11   against musl instead of glibc; the runtime is in the program
musl-3.13   against musl as Alpine builds its python3 (library, link-time optimisation), stripped, in a root file system of its own. It is
            not Alpine's binary
3.13t 3.15t without the lock that lets only one thread run at a time
3.15-tail   each instruction is a function that calls the next one (clang)

None is optimised by a profile, which would take half an hour. zlib and libffi, which two modules need, are built for musl from Debian's
sources, too, and linked in.
"""
import os
import shutil
import subprocess

BUILT = "built"
MUSL = "/usr/lib/x86_64-linux-musl/libc.so"
LIBRARIES = ("zlib", "libffi")
LIBRARIES_SUITE = "bookworm"
# In the folder with the unpacked sources. musl-gcc names the compiler's own C library and has no headers of the kernel.
FOR_MUSL = r"""
export PKG_CONFIG_LIBDIR=$here/lib/lib/pkgconfig
mkdir -p kernel
ln -sfn /usr/include/linux /usr/include/asm-generic kernel/
ln -sfn /usr/include/$(gcc -print-multiarch)/asm kernel/asm
cat > cc << CC
#!/bin/sh
case \$1 in *-print-multiarch) gcc -print-multiarch | sed s/gnu/musl/ ;; *) exec musl-gcc "\$@" -idirafter $here/kernel ;; esac
CC
chmod +x cc
export CC=$here/cc CFLAGS="-O2 -fPIC"
cd "$here/zlib"
./configure --prefix="$here/lib" --static
make libz.a
make install
cd "$here/libffi"
./configure --prefix="$here/lib" --disable-shared --with-pic --disable-docs --disable-multi-os-directory
make
make install
export CPPFLAGS="-I$here/lib/include" LDFLAGS="-L$here/lib/lib"
"""
AS_ALPINE = r"""
export CFLAGS="-O2 -fno-semantic-interposition -DTHREAD_STACK_SIZE=0x100000" LDFLAGS="$LDFLAGS -Wl,-z,stack-size=0x100000"
"""
CONFIGURE = './configure --without-ensurepip --disable-test-modules '
INSTALL = r"""
make install DESTDIR="$here/root"
strip --strip-unneeded "$here"/root/usr/bin/python3.13 "$here"/root/usr/lib/libpython3.13.so.1.0
"""
# name → (suite, version, whether with musl, before configure, its options, after make)
VARIANTS = {
    "musl-3.11": ("bookworm", "3.11", True, "", "", ""),
    "musl-3.13": ("trixie", "3.13", True, AS_ALPINE, "--prefix=/usr --enable-shared --with-lto --with-computed-gotos --disable-rpath", INSTALL),
    "source-3.13t": ("trixie", "3.13", False, "", "--disable-gil", ""),
    "source-3.15t": ("sid", "3.15", False, "", "--disable-gil", ""),
    "source-3.15-tail": ("sid", "3.15", False, "export CC=clang-19\n", "--with-tail-call-interp", ""),
}


def version(name):
    """Of a variant, as `3.13` and `3.13t`."""
    return VARIANTS[name][1] + ("t" if name.endswith("t") else "")


def script(name):
    _, _, musl, before, options, after = VARIANTS[name]
    return (f"set -e\nhere=$PWD\nexport MAKEFLAGS=-j$(nproc)\n{FOR_MUSL if musl else ''}cd \"$here/python\"\n{before}{CONFIGURE}{options}\nmake\n"
            + after)


def unpack(folder, name, target):
    """The upstream's part of the source: Debian's changes are for Debian."""
    archive = next(f for f in sorted(os.listdir(folder)) if f.startswith(name + "_") and ".orig.tar." in f and not f.endswith(".asc"))
    target = os.path.join(folder, target)
    os.makedirs(target, exist_ok=True)
    subprocess.run(["tar", "-xf", os.path.join(folder, archive), "-C", target, "--strip-components=1"], check=True)


def download(name, sources, folder):
    """`sources`: a function that puts the sources of a suite's packages into a folder."""
    suite, number, musl = VARIANTS[name][:3]
    sources(suite, ["python" + number], folder)
    unpack(folder, "python" + number, "python")
    if musl:
        sources(LIBRARIES_SUITE, LIBRARIES, folder)
        for library in LIBRARIES:
            unpack(folder, library, library)


def complete_root(root):
    """What a root file system needs beside the interpreter: musl, which is its dynamic linker too."""
    for folder in ("lib", "tmp", "dev"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    shutil.copy(os.path.realpath(MUSL), os.path.join(root, "lib", "ld-musl-x86_64.so.1"))


def build(name, sources, folder, say):
    """→ (root file system or None, the interpreter in it). RuntimeError: why there is none."""
    root = os.path.join(folder, "root") if VARIANTS[name][5] else None
    python = f"/usr/bin/python{VARIANTS[name][1]}" if root else os.path.join(folder, "python", "python")
    if os.path.exists(os.path.join(folder, BUILT)):
        return root, python
    if VARIANTS[name][2] and not shutil.which("musl-gcc"):
        raise RuntimeError(f"{name}: no musl-gcc: install musl-tools")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    say(f"{name} is built, which takes some minutes")
    download(name, sources, folder)
    with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
        done = subprocess.run(["bash", "-c", script(name)], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    if root and not done.returncode:
        complete_root(root)
    command = [*(["chroot", root] if root else []), python, "-c", "import asyncio, ctypes, hashlib, zlib"]
    used = subprocess.run(command, capture_output=True, text=True) if done.returncode == 0 else done
    if used.returncode:
        raise RuntimeError(f"{name}: the build failed, see {folder}/log")
    open(os.path.join(folder, BUILT), "w").close()
    return root, python
