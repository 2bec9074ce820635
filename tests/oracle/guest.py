# SPDX-License-Identifier: Apache-2.0
"""A guest with programs of an architecture, under QEMU, in which programs of known call chains are recorded."""
import collections
import glob
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
QEMU = os.path.join(ROOT, "tests/support/qemu")
MEMORY_MB = 3072
KERNELS = ("bullseye", "bookworm", "trixie", "sid")  # 5.10, 6.1, 6.12, 7.x

# debian, node: what Debian and Node.js call it
Architecture = collections.namedtuple("Architecture", "debian node triplet loader proflet")
ARCHITECTURES = {a.debian: a for a in (
    Architecture("amd64", "x64", "x86_64-linux-gnu", "lib64/ld-linux-x86-64.so.2", os.path.join(ROOT, "build/release/proflet")),
    Architecture("arm64", "arm64", "aarch64-linux-gnu", "lib/ld-linux-aarch64.so.1", os.path.join(ROOT, "build/arm64/proflet")))}


def add_options(parser):
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="arm64", help="(default %(default)s)")
    parser.add_argument("--kernels", type=lambda text: text.split(","), default=["bookworm"], metavar="SUITES",
                        help="those of Debian's suites, of " + ",".join(KERNELS) + " (default: bookworm)")
    parser.add_argument("--proflet", help="(default: that of the release preset, or of arm64)")
    parser.add_argument("--keep", metavar="FOLDER", help="for what the guests leave")


def read_options(parser):
    options = parser.parse_args()
    unknown = [k for k in options.kernels if k not in KERNELS]
    if unknown:
        parser.error("no such kernels: " + " ".join(unknown))
    options.architecture = ARCHITECTURES[options.architecture]
    options.proflet = options.proflet or options.architecture.proflet
    return options


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def sysroot(*arguments):
    """→ the folder with Debian's packages (deploy/cross/sysroot)"""
    return output(os.path.join(ROOT, "deploy/cross/sysroot"), *arguments)


def libraries_of_proflet(architecture):
    """→ the folder with the libraries that proflet was built against; "": this machine's"""
    return "" if os.uname().machine in architecture.triplet else sysroot(architecture.debian)


def compile_library(architecture, source, to, *options):
    """One in C without a C library."""
    root = libraries_of_proflet(architecture)
    compiler = [architecture.triplet + "-gcc", "--sysroot=" + root] if root else ["cc"]
    subprocess.run([*compiler, "-O2", "-shared", "-fPIC", "-nostdlib", *options, "-o", to, source], check=True)


def copy(root, guest, *files):
    """Copies PROGRAM=PATH_IN_GUEST and the libraries that these need, from `root`."""
    os.makedirs(os.path.join(guest, "test"), exist_ok=True)
    subprocess.run([os.path.join(QEMU, "files"), guest, *files], check=True, env={**os.environ, "SYSROOT": root})


def needed(architecture, root, program, own=()):
    """→ the libraries in `root` that the program and its own libraries need, and the loader, as `files` wants them"""
    text = output("readelf", "-dW", *own, program)
    names = {line.rpartition("[")[2].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line} - set(map(os.path.basename, own))
    paths = ("/" + os.path.relpath(path, root) for name in names for top in ("*", "usr/lib")
             for path in glob.glob(os.path.join(root, top, architecture.triplet, name)))
    loader = next(p for p in (os.path.join(root, architecture.loader), os.path.join(root, "usr", architecture.loader)) if os.path.exists(p))
    return [f"{root}{path}={path}" for path in paths] + [f"{loader}=/{architecture.loader}"]


def run(architecture, guest, script, out, kernel, seconds):
    """Runs a shell script in it, whose /out becomes `out`. → its exit code"""
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(guest, "test/all"), "w", encoding="utf-8") as f:
        f.write(script)
    vmlinuz = output(os.path.join(QEMU, "kernels"), architecture.debian, kernel).split()[2]
    return subprocess.run([os.path.join(QEMU, "boot"), "-t", str(seconds), "-m", str(MEMORY_MB), "-o", out, vmlinuz, guest, "--", "sh", "/test/all"],
                          stdin=subprocess.DEVNULL).returncode
