# SPDX-License-Identifier: Apache-2.0
"""A guest with programs for arm64, under QEMU, in which programs of known call chains are recorded."""
import glob
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
QEMU = os.path.join(ROOT, "tests/support/qemu")
PROFLET = os.path.join(ROOT, "build/arm64/proflet")
MEMORY_MB = 3072


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def sysroot(*arguments):
    """→ the folder with Debian's packages (deploy/cross/sysroot)"""
    return output(os.path.join(ROOT, "deploy/cross/sysroot"), *arguments)


def copy(debian, guest, *files):
    """Copies PROGRAM=PATH_IN_GUEST and the libraries that these need."""
    os.makedirs(os.path.join(guest, "test"), exist_ok=True)
    subprocess.run([os.path.join(QEMU, "files"), guest, *files], check=True, env={**os.environ, "SYSROOT": debian})


def needed(debian, program, own=()):
    """→ the system's libraries that the program and its own libraries need, as `files` wants them"""
    text = output("readelf", "-dW", *own, program)
    names = {line.rpartition("[")[2].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line} - set(map(os.path.basename, own))
    paths = ("/" + os.path.relpath(path, debian) for name in names for path in glob.glob(os.path.join(debian, "*/aarch64-linux-gnu", name)) +
             glob.glob(os.path.join(debian, "usr/lib/aarch64-linux-gnu", name)))
    loader = next(p for p in (debian + "/lib/ld-linux-aarch64.so.1", debian + "/usr/lib/ld-linux-aarch64.so.1") if os.path.exists(p))
    return [f"{debian}{path}={path}" for path in paths] + [loader + "=/lib/ld-linux-aarch64.so.1"]


def run(guest, script, out, kernel, seconds):
    """Runs a shell script in it, whose /out becomes `out`. → its exit code"""
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(guest, "test/all"), "w", encoding="utf-8") as f:
        f.write(script)
    vmlinuz = output(os.path.join(QEMU, "kernels"), "arm64", kernel).split()[2]
    return subprocess.run([os.path.join(QEMU, "boot"), "-t", str(seconds), "-m", str(MEMORY_MB), "-o", out, vmlinuz, guest, "--", "sh", "/test/all"],
                          stdin=subprocess.DEVNULL).returncode
