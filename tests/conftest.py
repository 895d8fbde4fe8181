import pytest
from browsing import ARGUMENTS, CHROMIUM


@pytest.fixture(scope="session")
def browser():
    """The one browser of all pages."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed, so the page was not opened in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()
