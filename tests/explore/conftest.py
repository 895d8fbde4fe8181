import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update"]
PATIENCE = 240_000  # milliseconds, on a busy machine


@contextlib.contextmanager
def serving(*options, state=None):
    """`neft explore` in a process of its own: the process, and the address that it printed."""
    program = "from neft.cli import main; main()"
    environment = {**os.environ, **({} if state is None else {"XDG_STATE_HOME": str(state)})}
    process = subprocess.Popen(
        [sys.executable, "-c", program, "explore", "--no-browser", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield process, re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())[0]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed, so the page was not opened in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def server():
    with serving() as (_, address):
        yield address


@pytest.fixture
def opened(browser):
    """A function that opens a page; at the end nothing may have complained or asked outside."""
    pages = []

    def go(address, *, size=(1280, 900), wait=True, **options):
        page = browser.new_page(viewport=dict(zip(("width", "height"), size)), **options)
        page.set_default_timeout(PATIENCE)
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(f"{error} {error.stack}"))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(address)
        pages.append(page)
        if wait:
            shown(page)
        return page

    yield go
    for page in pages:
        page.close()


def shown(page):
    when(page, "!!globalThis.neftExplore?.page?.derived && !neftExplore.page.asking")


def when(page, expression, argument=None):
    # Playwright's own waiting evaluates a string in the page, which its policy forbids.
    until(lambda: page.evaluate(expression, argument), PATIENCE / 1000)


def quiet(page, address):
    home = address.partition("?")[0]
    assert page.said == []
    assert [url for url in page.asked if not url.startswith((home, "data:", "blob:"))] == []


def until(found, seconds=60.0):
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end
        time.sleep(0.05)


AXE = Path(__file__).parent / "axe" / "axe.min.js"


def violations(page):
    """The serious ones that axe-core finds."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
    return [(one["id"], one["nodes"][0]["html"][:120]) for one in serious]
