"""The same page without a server: as a file, and in a notebook."""

import html.parser
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from browsing import serious

import neft
from neft.explore import _code, _static
from neft.explore._settings import Settings

from .conftest import shown, when

FEW = (("tanh",), np.array([0.0, 0.1]), np.array([1.0, 1.5]))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("static") / "lecture.html"
    path.write_text(_static.page(*FEW), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.xdist_group("explorer")
def test_the_file_shows_what_theory_says_without_asking_anybody(opened, file):
    page = opened(file.as_uri() + "#depth=4&width=100&C_W=1.5&C_b=0.1")
    found = page.evaluate("neftExplore.page.derived")
    net = Settings(depth=4, width=100, C_W=1.5, C_b=0.1).network()
    meaning = neft.width.interpret(neft.width.statistics(net, np.ones(100)))
    assert np.isclose(found["strength"], meaning.strength[-1], rtol=1e-5)
    assert "Live in this file: activation, depth" in page.inner_text("#live") and page.is_hidden("#draw-box")
    page.click("#view-flow .tools >> text=Code")
    assert (
        page.inner_text("#code-python") == _code.code(Settings(depth=4, width=100, C_W=1.5, C_b=0.1))["flow"]["python"]
    )
    page.click("#code >> text=Close")
    page.locator("#view-phase .point").focus()
    page.keyboard.press("ArrowLeft")
    when(page, "neftExplore.page.settings.C_W === 1 && !neftExplore.page.asking")
    page.click("#tab-train")
    when(page, "!!neftExplore.page.regression.infinite")
    assert page.is_visible("#view-regression svg") and serious(page) == []
    page.reload()
    shown(page)
    assert page.said == [] and {url for url in page.asked if url.startswith("http")} == set()


@pytest.mark.slow
def test_a_whole_file_is_small_enough(file):
    size = len(_static.ACTIVATIONS) * len(_static.C_b) * len(_static.C_W) * len(_static.NAMES) * _static.DEPTH * 4
    libraries = file.stat().st_size
    # Numbers in base64, a file of one activation, and five more phase diagrams of at most 150 kB.
    assert size * 4 / 3 + libraries + 5 * 150_000 < 15e6


@pytest.mark.slow
def test_what_stands_in_the_file_cannot_leave_its_element(file):
    class Reader(html.parser.HTMLParser):
        scripts, inside = 0, ""

        def handle_starttag(self, tag, attributes):
            self.scripts += tag == "script"
            assert not {name for name, _ in attributes} & {"src", "onload", "onclick"}

    reader = Reader()
    reader.feed(file.read_text(encoding="utf-8"))
    assert reader.scripts == 8
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', file.read_text(encoding="utf-8"))[1]
    assert "unsafe" not in policy and "http" not in policy


def test_the_widget_begins_with_a_network_and_answers_messages():
    widget = neft.explore.Widget(neft.MLP((3, 8, 8, 1), "relu", C_W=2.0))
    assert widget.settings["depth"] == 3 and widget.settings["activation"] == "relu"
    said = []
    widget.send = said.append
    widget._heard({"kind": "ask", "mark": 1, "name": "code", "settings": widget.settings})
    widget._heard({"kind": "ask", "mark": 2, "name": "code", "settings": {"depth": 0}})
    widget._heard({"kind": "stop", "mark": 3})
    widget._heard("nonsense")
    assert said[0]["mark"] == 1 and "neft.MLP((8, *[8] * 2, 1), 'relu', C_W=2.0)" in said[0]["result"]["flow"]["python"]
    assert said[1] == {"mark": 2, "fields": {"depth": "depth is 0, but must be at least 2."}} and len(said) == 2
    assert "export default" in widget._esm and "http" not in widget._css
    widget.close()
    with pytest.raises(ValueError, match="hidden layers of one width"):
        neft.explore.Widget(neft.MLP((3, 8, 9, 1)))


@pytest.mark.slow
@pytest.mark.xdist_group("explorer")
def test_the_widget_draws_in_a_browser(opened, tmp_path):
    widget = neft.explore.Widget()
    (tmp_path / "widget.mjs").write_text(widget._esm, encoding="utf-8")
    from neft.explore._app import at_once

    answers = {name: at_once(name, Settings()) for name in ("flow", "phases", "words")}
    page = opened("about:blank", wait=False)
    page.set_content("<div id='here'></div>")
    program = (tmp_path / "widget.mjs").read_text(encoding="utf-8").rpartition("export default")[0]
    page.evaluate(program)
    page.evaluate(
        """([facts, answers]) => {
      let heard;
      const model = { get: () => facts, on: (_, f) => { heard = f; }, send: m => {
        if (m.kind === 'ask') setTimeout(() => heard({ mark: m.mark, result: answers[m.name] }), 5); } };
      neftExplore.render({ model, el: document.querySelector('#here') }); }""",
        [widget.facts, answers],
    )
    when(page, "document.querySelectorAll('#view-flow svg').length === 3 && !!document.querySelector('.point')")
    assert "Networks of depth 8 and width 16" in page.inner_text("#verdict") and page.said == []
    widget.close()


@pytest.mark.parametrize(
    "settings",
    [
        Settings(depth=3, width=8, C_W=1.5),
        Settings(depth=3, width=8, residual="one", skip=0.9),
        Settings(depth=3, width=8, residual="two", norm="layer", C_b=0.1),
        Settings(activation="z*tanh(z)", depth=4, width=8, norm="rms"),
    ],
    ids=["plain", "one", "two", "norm"],
)
def test_the_programs_describe_the_same_network(settings):
    program = _code.code(settings)["flow"]["python"]
    lines = [line for line in program.splitlines() if not line.startswith(("import", "stats", "found", "neft"))]
    known = {"neft": neft}
    for line in filter(None, lines):
        exec(line, known)
    assert known["net"].to_dict() == settings.network().to_dict()


@pytest.mark.slow
def test_the_commands_run(tmp_path):
    settings = Settings(depth=3, width=8, C_W=1.5, residual="one", skip=0.9)
    for view in ("flow", "phase"):
        words = shlex.split(_code.code(settings)[view]["shell"])
        program = [sys.executable, "-c", "from neft.cli import main; main()", *words[1:]]
        program += ["--points", "5"] if view == "phase" else ["--json"]
        run = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert (Path(tmp_path) / f"{view}.svg").exists()
        if view == "flow":
            stats = neft.width.statistics(settings.network(), np.ones(8))
            np.testing.assert_allclose(json.loads(run.stdout)["tensors"]["V"], stats.V)
