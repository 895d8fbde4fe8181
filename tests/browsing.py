"""A real browser for tests of pages: where it is, how it is started, and what axe-core finds in a page."""

import shutil
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update"]
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
"""axe-core 4.10.3, under the MPL-2.0 that stands beside it."""

SERIOUS = """async () => {
  const found = await axe.run(document, {resultTypes: ['violations']});
  return found.violations.filter(v => ['serious', 'critical'].includes(v.impact))
    .map(v => `${v.id}: ${v.nodes[0].html.slice(0, 100)}`);
}"""


def listened(page):
    """The page, which keeps what is said on its console and what it asks for."""
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(f"{error} {error.stack}"))
    page.on("request", lambda request: page.asked.append(request.url))
    return page


def serious(page):
    """What axe-core finds. A page's own policy forbids other scripts, and its evaluation goes around that."""
    page.evaluate(AXE)
    return page.evaluate(SERIOUS)
