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
from neft.explore import _code, _regression, _static
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
@pytest.mark.xdist_group("explorer")
def test_the_file_refuses_what_it_does_not_hold(opened, file):
    page = opened(file.as_uri() + "#depth=4&C_W=1.5")
    assert page.locator("#view-flow .tools >> text=JSON").count() == 0
    for name, value, says in [
        ("width", "-4", "width is -4, but must be at least 2."),
        ("depth", "0", "depth is 0, but must be at least 2."),
        ("depth", "33", "depth is 33, but must be at most 32 in this file."),
        ("C_W", "9", "C_W is 9, but must be from 1 to 1.5 in this file."),
        ("C_b", "-1", "C_b is -1, but must be from 0 to 0.1 in this file."),
    ]:
        page.fill(f"#n-{name}", value)
        when(page, "([name, says]) => document.querySelector(`#e-${name}`).textContent === says", [name, says])
        assert page.evaluate("neftExplore.page.flow") is None
        page.fill(f"#n-{name}", {"depth": "4", "width": "16", "C_W": "1.5", "C_b": "0.1"}[name])
        shown(page)
    page.fill("#n-C_W", "1.1")
    says = "C_W is 1.1: this file shows 1, the nearest that it holds."
    when(page, "says => document.querySelector('#e-C_W').textContent === says", says)
    page.click("#view-flow .tools >> text=Code")
    when(page, "document.querySelector('#code-python').textContent.includes(\"'tanh', C_b=0.1, C_W=1)\")")
    page.click("#code >> text=Close")
    page.evaluate("location.hash = 'residual=one&norm=rms'")
    says = "The address sets residual, norm, but this file holds perceptrons"
    when(page, "says => document.querySelector('#verdict').textContent.startsWith(says)", says)
    page.evaluate("location.hash = 'depth=2.5'")
    when(page, "document.querySelector('#e-depth').textContent === 'depth is 2.5, but must be a whole number.'")
    page.evaluate("location.hash = 'tab=train&time=3'")
    when(page, "neftExplore.page.regression.infinite && neftExplore.page.regression.index === 3")
    page.click("#view-regression .tools >> text=Code")
    time = page.evaluate("neftExplore.page.regression.infinite.times[3]")
    when(page, "time => document.querySelector('#code-python').textContent.includes(`time=${time}, order`)", time)
    assert page.said == []


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
    widget._heard({"kind": "ask", "mark": 4, "name": "numbers/other", "settings": {}})
    assert "must be one of flow" in said.pop()["fields"][""]
    widget._heard("nonsense")
    assert said[0]["mark"] == 1 and "neft.MLP((8, *[8] * 2, 1), 'relu', C_W=2.0)" in said[0]["result"]["flow"]["python"]
    assert said[1] == {"mark": 2, "fields": {"depth": "depth is 0, but must be at least 2."}} and len(said) == 2
    assert "export default" in widget._esm and "http" not in widget._css
    # The notebook around it keeps its own looks.
    assert not re.search(r"(?:^|[{},])\s*(?::root|html|body)\s*[{,]", widget._css)
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


def test_the_programs_ask_for_what_exists():
    relu = _code.code(Settings(activation="relu", depth=3, width=8, C_W=2.0, until=0.5))["regression"]
    known = {}
    exec(relu["python"], known)
    net, line = Settings(activation="relu", depth=3, width=8, C_W=2.0).network(inputs=1), _regression.line(21)
    x, y = _regression.arrays(Settings())
    np.testing.assert_allclose(known["found"].mean, neft.training.predict(net, x, y, line, time=0.5).mean, rtol=1e-9)
    assert "--order" not in relu["shell"] and relu["shell"].endswith("--inputs 1 --time 0.5")
    tanh = _code.code(Settings())["regression"]
    assert "order=1" in tanh["python"] and tanh["shell"].endswith("--inputs 1 --order 1")
    assert "order=0)" in _code.code(Settings(norm="rms"))["regression"]["python"]
    two = _code.code(Settings(residual="two"))
    assert all("net = " in one["python"] and "--network net.json" in one["shell"] for one in two.values())
    assert "neft predict" in two["regression"]["shell"] and "--interpret" in two["density"]["shell"]
    assert "--C-b 0,1 --C-W 0.1,4" in two["phase"]["shell"] and "--plot" not in two["ntk"]["shell"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "view"),
    [
        (Settings(activation="-z*tanh(z)", depth=3, width=8), "phase"),
        (Settings(activation="-z*tanh(z)", depth=3, width=8), "ntk"),
        (Settings(activation="relu", depth=3, width=8, C_W=2.0, until=0.0), "regression"),
        (Settings(depth=4, width=8, residual="two", norm="layer"), "phase"),
        (Settings(depth=4, width=8, residual="two", norm="layer", until=1.0), "regression"),
    ],
    ids=["sign", "sign-ntk", "relu", "two", "two-trained"],
)
def test_every_command_is_understood(tmp_path, settings, view):
    if settings.residual == "two":
        net = settings.network(inputs=1) if view == "regression" else settings.network()
        (tmp_path / "net.json").write_text(json.dumps(net.to_dict()))
    for line in _code.code(settings)[view]["shell"].splitlines():
        if line.startswith("#"):
            continue
        program, *words = shlex.split(line)
        own = ["-c", "from neft.cli import main; main()"] if program == "neft" else []
        subprocess.run([sys.executable, *own, *words], cwd=tmp_path, capture_output=True, text=True, check=True)


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
