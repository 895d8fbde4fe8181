"""The site builds offline with warnings as errors, and its pages ask nothing of other machines."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

# The site is built once.
pytestmark = pytest.mark.xdist_group("site")

DOCS = Path(__file__).parents[2] / "docs"
# What a browser fetches by itself, unlike the href of an <a>.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|object)\b[^>]*?\b(?:src|data)\s*=\s*["']([^"']*)|<link\b[^>]*?\bhref=["']([^"']*)"""
)
IMPORTED = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for module in ("sphinx", "myst_parser", "furo", "latex2mathml"):
        pytest.importorskip(module, reason=f"{module} of the group docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    # Any connection that the build made would go to a proxy that is not there.
    environment = {"PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "--quiet", "-b", "html", "-d", folder / "trees"]
    run = subprocess.run([*command, DOCS, folder / "html"], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return folder / "html"


def outside(address):
    return re.match(r"(?:[a-z]+:)?//", address) is not None


@pytest.mark.slow
def test_no_page_fetches_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        fetched = [first or second for first, second in FETCHED.findall(page.read_text())]
        assert fetched and not [address for address in fetched if outside(address)], page.name
    for sheet in site.rglob("*.css"):
        assert not [address for address in IMPORTED.findall(sheet.read_text()) if outside(address)], sheet.name


@pytest.mark.slow
def test_formulas_are_mathml_and_nothing_is_left_of_their_tex(site):
    text = (site / "width.html").read_text()
    assert text.count("<math") > 10 and "<mfrac>" in text and r"\frac" not in text


@pytest.mark.slow
def test_numbers_of_equations_are_shown_and_can_be_linked_to(site):
    text = (site / "theory" / "width.html").read_text()
    anchors, shown = re.findall(r'id="eq-(\d+)"', text), re.findall(r'href="#eq-(\d+)">\(\1\)</a>', text)
    assert anchors == shown == [str(number) for number in range(1, len(anchors) + 1)] and r"\tag" not in text
    assert 'href="width.html#eq-10"' in (site / "theory" / "training.html").read_text()


@pytest.mark.slow
def test_the_reference_holds_every_public_name(site):
    import neft

    front = (site / "api" / "neft.html").read_text()
    for module in (name for name in neft.__all__ if hasattr(getattr(neft, name), "__path__")):
        text = (site / "api" / f"{module}.html").read_text()
        for name, value in vars(getattr(neft, module)).items():
            if not name.startswith("_") and getattr(value, "__module__", "").startswith("neft."):
                # What stands at the front too is described there.
                twice = getattr(neft, name, None) is value
                assert f'id="neft.{name}"' in front if twice else f'id="neft.{module}.{name}"' in text, name
    assert 'id="neft.MLP"' in front and 'id="neft.Dense"' in front
