import contextlib
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from browsing import listened

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
def server():
    with serving() as (_, address):
        yield address


@pytest.fixture
def opened(browser):
    """A function that opens a page; at the end nothing may have complained or asked outside."""
    pages = []

    def go(address, *, size=(1280, 900), wait=True, **options):
        page = listened(browser.new_page(viewport=dict(zip(("width", "height"), size)), **options))
        page.set_default_timeout(PATIENCE)
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
