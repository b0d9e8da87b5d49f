"""Find a Chromium for the tests of the page, or install one: ``python -m tests.browser.chromium``.

The order is: one on PATH, Playwright's own if downloaded, Playwright's download, Debian's package. Without any, the
tests of the page fail; they are never skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HELP = (
    "The tests of the page need Chromium, and none was found or could be installed.\n"
    "  Debian, Ubuntu:  apt-get install chromium\n"
    "  elsewhere:       .venv/bin/playwright install --with-deps chromium\n"
    "or put a `chromium` on PATH."
)
DOWNLOAD_SECONDS = 300
START_SECONDS = 240  # Chromium may need this many seconds to start on a busy machine.
WORKS = "<title>works</title>"


class NoChromiumError(RuntimeError):
    """Raised if no Chromium is found; the message says how to get one."""


def find() -> str:
    """Return the path of a Chromium. Raises NoChromiumError."""
    found = _on_path() or _playwrights()
    if not found:
        raise NoChromiumError(HELP)
    return found


def _on_path() -> str:
    return next((path for name in NAMES if (path := shutil.which(name)) and works(path)), "")


def _playwrights() -> str:
    """Return the path of Playwright's own Chromium, if it was downloaded."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() and works(path) else ""


def works(path: str) -> bool:
    """Tell whether the Chromium at ``path`` starts and shows a page; a library may be missing."""
    command = [path, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"data:text/html,{WORKS}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return WORKS in done.stdout


def install() -> str:
    """Return the path of a Chromium, installed if necessary. Raises NoChromiumError."""
    for attempt in (_nothing, _download, _debian):
        attempt()
        try:
            return find()
        except NoChromiumError:
            continue
    raise NoChromiumError(HELP)


def _nothing() -> None:
    """Do nothing: the first of the ways to get a Chromium is to use one that exists."""


def _download() -> None:
    print("no Chromium here: trying Playwright's download", flush=True)
    _run([sys.executable, "-m", "playwright", "install", "chromium"])


def _debian() -> None:
    """Install Debian's package, as root or by a sudo without password."""
    if not shutil.which("apt-get"):
        return
    print("no Chromium yet: trying the package of the distribution", flush=True)
    rise = [] if os.geteuid() == 0 else ["sudo", "-n"]
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    _run([*rise, "apt-get", "-q", "update"], quiet)
    _run([*rise, "apt-get", "-q", "install", "-y", "--no-install-recommends", "chromium"], quiet)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run the command, and print its output only if it fails; no error is raised, so that the caller can go on."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"  {command[0]}: {error}", flush=True)
        return
    if done.returncode:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if re.search(r"\w{3}", line)]
        why = next(
            (line for line in said if "error" in line.lower()), said[-1] if said else f"ended with {done.returncode}"
        )
        print(f"  {' '.join(command[-3:])}: {why[:200]}", flush=True)


if __name__ == "__main__":
    try:
        print(install())
    except NoChromiumError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
