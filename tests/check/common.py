# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks: the list of the project's files, findings, and the self-test that shows a check can fail."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def project_files(root):
    """Files that are tracked, or new and not ignored; relative to root, sorted. Without git: everything below root."""
    done = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True)
    if done.returncode == 0:
        names = {n.decode() for n in done.stdout.split(b"\0") if n}
    else:
        names = {os.path.relpath(os.path.join(d, f), root) for d, dirs, files in os.walk(root) for f in files
                 if f"{os.sep}build{os.sep}" not in d + os.sep and f"{os.sep}.git{os.sep}" not in d + os.sep}
    return sorted(n for n in names if os.path.isfile(os.path.join(root, n)) and not os.path.islink(os.path.join(root, n)))


def text(root, name):
    """The file's text, or None for a binary file."""
    with open(os.path.join(root, name), "rb") as f:
        data = f.read()
    if b"\0" in data[:8192]:
        return None
    return data.decode("utf-8", errors="replace")


def self_test(check, cases):
    """cases: (name, {path: content}, words that a finding must contain, or None for no finding at all)."""
    failed = 0
    for name, files, wanted in cases:
        with tempfile.TemporaryDirectory(prefix="proflet-check-") as root:
            for path, content in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as f:
                    f.write(content)
            findings = check(root)
        ok = not findings if wanted is None else any(wanted in f for f in findings)
        if not ok:
            failed += 1
            print(f"self-test {name}: wanted {wanted or 'no finding'}, found {findings}")
    print(f"self-test: {len(cases) - failed} of {len(cases)} cases as expected")
    return failed


def main(check, cases):
    """Exit 0: clean; 1: findings, one line each; with --self-test: does the check find what it should."""
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(1 if self_test(check, cases) else 0)
    if sys.argv[1:]:
        print(f"usage: {sys.argv[0]} [--self-test]", file=sys.stderr)
        sys.exit(2)
    findings = check(ROOT)
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)
