# SPDX-License-Identifier: Apache-2.0
"""The portable builds of CPython that uv installs (python-build-standalone: clang, profile-guided, with the tail-calling interpreter from
3.14 on), as a Go module carries them for Go programs that embed a Python. No other package registry has them.
"""
import gzip
import json
import os
import shutil
import subprocess

MODULE = "github.com/kluctl/go-embed-python"
VERSIONS = {"3.10": "v0.0.0-3.10.16-20241219-1", "3.11": "v0.0.0-3.11.11-20241219-1", "3.14": "v0.0.0-3.14.6-20260610-1"}
DATA = "python/internal/data/linux-amd64"
BUILT = "built"
SYMLINK = 1 << 27  # of Go's file modes


def download(version):
    """→ the folder of the module, in Go's own cache. RuntimeError: why there is none."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    try:
        done = subprocess.run([go, "mod", "download", "-json", f"{MODULE}@{VERSIONS[version]}"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, cwd="/", timeout=600)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise RuntimeError(f"portable Python {version}: {e}")
    if done.returncode:
        raise RuntimeError(f"portable Python {version}: {(done.stdout + done.stderr).strip()[-200:]}")
    return json.loads(done.stdout)["Dir"]


def unpack(source, target):
    """Large files are compressed."""
    with open(os.path.join(source, "files.json"), encoding="utf-8") as f:
        files = json.load(f)["files"]
    for file in files:
        path = os.path.join(target, file["name"])
        packed = os.path.join(source, file["name"])
        if "symlink" in file:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(file["symlink"], path)
        elif os.path.isdir(packed) or file["perm"] >> 31:
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with gzip.open(packed + ".gz") if os.path.exists(packed + ".gz") else open(packed, "rb") as f, open(path, "wb") as to:
                shutil.copyfileobj(f, to)
            os.chmod(path, file["perm"] & 0o777)


def build(version, folder, say):
    """→ the folder of the installation. RuntimeError: why there is none."""
    if os.path.exists(os.path.join(folder, BUILT)):
        return folder
    say(f"portable Python {version}: downloading it")
    source = os.path.join(download(version), DATA)
    shutil.rmtree(folder, ignore_errors=True)
    unpack(source, folder)
    open(os.path.join(folder, BUILT), "w").close()
    return folder
