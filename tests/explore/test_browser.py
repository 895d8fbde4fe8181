"""The page in a real browser: sliders, dragging, tabs, addresses, downloads, and a server that goes away."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from browsing import serious

import neft
from neft.explore._settings import Settings

from .conftest import quiet, serving, shown, until, when

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("explorer")]

SLIDE = """([name, value]) => { const e = document.querySelector(`#f-${name}`); e.value = value;
  e.dispatchEvent(new Event('input', { bubbles: true })); }"""
SETTLED = """wanted => !neftExplore.page.asking
  && Object.entries(wanted).every(([name, value]) => neftExplore.page.flowOf?.[name] === value)"""
DENSITY = """z => { const d = neftExplore.page.derived.density;
  return z.map(z => neftExplore.edgeworth(z, d.variance, d.fourth)); }"""
NTK = """h => { const t = neftExplore.page.derived.tangent;
  return h.map(h => neftExplore.lognormal(h, t.mean, t.spread)); }"""
MOVING = """[...document.querySelectorAll('#neft *')].map(e => getComputedStyle(e))
  .filter(s => s.transitionDuration !== '0s' || s.animationName !== 'none').length"""
SAYS = "([name, text]) => document.querySelector(`#e-${name}`).textContent.includes(text)"
CUT = """(() => { const whole = document.documentElement.getBoundingClientRect();
  return [...document.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect(), frame = text.closest('svg');
    return getComputedStyle(frame).overflow !== 'visible' || box.left < 0 || box.right > whole.width
      || box.bottom > whole.height;
  }).map(text => text.textContent); })()"""
SETTINGS = "structuredClone(neftExplore.page.settings)"


def slide(page, name, value):
    page.evaluate(SLIDE, [name, value])


def settled(page, **values):
    when(page, SETTLED, values)


def test_sliders_show_what_theory_says(opened, server):
    page = opened(server)
    slide(page, "depth", 5)
    slide(page, "C_W", 1.5)
    slide(page, "width", 6)  # of its logarithm
    settled(page, depth=5, C_W=1.5, width=64)
    stats = neft.width.statistics(Settings(depth=5, width=64, C_W=1.5).network(), np.ones(64))
    meaning, density = neft.width.interpret(stats), neft.width.density(stats)
    found = page.evaluate("neftExplore.page.derived")
    assert np.isclose(found["strength"], meaning.strength[-1], rtol=1e-6)
    assert np.isclose(found["last"]["K_spread"] / found["last"]["K"], meaning.spread_kernel[-1], rtol=1e-6)
    assert np.isclose(found["tangent"]["spread"] / found["tangent"]["infinite"], meaning.spread_ntk[-1], rtol=1e-6)
    assert np.isclose(found["density"]["reach"], density.reach, rtol=0.01)
    z = density.z[::40]
    drawn = page.evaluate(DENSITY, z.tolist())
    np.testing.assert_allclose(drawn, density.density[::40], rtol=1e-6)
    h, tangent = [1.0, 3.0, 8.0], found["tangent"]
    logs = scipy.stats.lognorm(np.sqrt(np.log1p((tangent["spread"] / tangent["mean"]) ** 2)))
    curve = page.evaluate(NTK, h)
    np.testing.assert_allclose(curve, scipy.stats.lognorm.pdf(h, *logs.args, scale=tangent["mean"] / logs.mean()))
    assert page.locator("#view-flow svg").count() == 3 and "width 64" in page.inner_text("#verdict")
    quiet(page, server)


def test_advised_variances_are_used_and_called_critical(opened, server):
    page = opened(f"{server}#activation=gelu&C_W=1.2")
    advised = neft.width.advise("gelu", 8, 16)
    when(page, "() => neftExplore.page.advised?.C_b > 0 && neftExplore.page.phases?.points.length > 0")
    page.click("#apply")
    when(page, "wanted => Math.abs(neftExplore.page.flowOf?.C_W - wanted) < 1e-4", advised.C_W)
    assert page.evaluate(SETTINGS)["C_b"] == pytest.approx(advised.C_b, rel=1e-4)
    assert "is a critical one" in page.inner_text("#view-phase .caption")
    page.select_option("#f-activation", "sigmoid")  # whose edge of chaos is farther than the fields go
    when(page, "neftExplore.page.advised?.C_W > 100")
    assert page.is_hidden("#apply")
    page.select_option("#f-activation", "gelu")
    settled(page, activation="gelu")
    slide(page, "C_W", 1.5)
    when(page, "() => document.querySelector('#view-phase .caption').textContent.includes('the ordered phase')")
    quiet(page, server)


def test_an_output_behind_a_norm_is_a_gaussian_and_the_ntk_has_one_spread(opened, server):
    page = opened(f"{server}#residual=two&norm=layer&depth=6&width=24")
    assert "excess kurtosis 0: it is a Gaussian" in page.inner_text("#view-density .caption")
    said = page.inner_text("#verdict")
    spread = re.search(r"its NTK by (\d+)", said)[1]
    assert "variance by 0" in said and int(spread) > 10
    assert f"differs by {spread}" in page.inner_text("#view-ntk .caption")
    quiet(page, server)


def test_sentences_speak_of_what_is_drawn(opened, server, tmp_path):
    page = opened(f"{server}#activation=relu&C_W=2&depth=4&tensors=K1")
    caption = "document.querySelector('#view-phase .caption').textContent"
    when(page, f"{caption}.includes('critical')")
    assert "white line" not in page.inner_text("#view-phase .caption")  # of a diagram without one
    assert "0e+0" not in page.text_content("#view-flow .plot")
    page.fill("#n-C_W", "60")
    when(page, f"{caption}.startsWith('The network lies outside of the diagram')")
    settled(page, C_W=60)
    with page.expect_download() as download:
        page.click("#view-ntk .tools >> text=SVG")
    download.value.save_as(tmp_path / "ntk.svg")
    assert opened((tmp_path / "ntk.svg").as_uri(), wait=False).evaluate(CUT) == []
    page.fill("#n-C_W", "0")
    when(page, "document.querySelector('#verdict').textContent.startsWith('K is 0')")
    when(page, "neftExplore.page.advised?.C_W > 0")
    assert page.inner_text("#interpretation") == ""
    page.fill("#n-C_W", "500")
    when(page, "document.querySelector('#advice').textContent === 'There is no answer for these settings.'")
    page.evaluate("location.hash = 'activation=tanh&residual=two'")
    settled(page, residual="two")
    wide = """e => { const c = e.cloneNode(true); c.style.width = "auto"; e.after(c);
      const width = c.offsetWidth; c.remove(); return width; }"""
    residual = page.locator("#f-residual")
    assert residual.evaluate(wide) <= residual.bounding_box()["width"]
    page.route("**/api/run", lambda route: route.fulfill(body='{"error": "4 simulations are running already."}\n'))
    page.evaluate("location.hash = 'activation=erf'")
    settled(page, activation="erf")
    when(page, f"{caption}.startsWith('Coarse so far')")
    page.wait_for_timeout(300)  # for what is said of the finer one
    assert page.locator("#view-phase svg").count() == 1
    quiet(page, server)


def test_points_are_drawn_inside_of_the_figure(opened, server):
    page = opened(f"{server}#tab=train&depth=3&width=64&C_b=0.1&points=-2.9,0.5;0.4,-9.6&time=0")
    when(page, "neftExplore.page.regression.infinite && document.querySelectorAll('#view-regression svg').length")
    box = page.locator("#view-regression .plot > svg").bounding_box()
    dots = page.locator("#view-regression .plot > svg circle[r='6']")
    assert dots.count() == 2
    for dot in dots.all():
        at = dot.bounding_box()
        assert box["x"] < at["x"] < box["x"] + box["width"] and box["y"] < at["y"] < box["y"] + box["height"] - 30
    assert "after training" not in page.text_content("#view-regression .plot")  # at time 0
    page.fill("#n-width", "4096")
    page.click("#train")
    when(page, "document.querySelector('#e-width').textContent.includes('to be trained here')")
    assert page.is_visible("#e-width")
    quiet(page, server)


def test_a_point_is_dragged_and_moved_by_arrow_keys_while_the_diagram_stays(opened, server):
    page = opened(server)
    page.wait_for_selector("#view-phase .point")
    page.evaluate("neftExplore.page.stop('phases')")  # a refined diagram is another picture
    page.evaluate("document.querySelector('#view-phase svg').dataset.mark = 'same'")
    box = page.locator("#view-phase .point").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 90, y - 60, steps=4)
    page.mouse.up()
    moved = page.evaluate(SETTINGS)
    assert moved["C_W"] > 1.3 and moved["C_b"] > 0.1
    page.locator("#view-phase .point").focus()
    for key in ("ArrowRight", "ArrowUp", "Shift+ArrowLeft"):
        page.keyboard.press(key)
    now = page.evaluate(SETTINGS)
    assert np.isclose(now["C_W"], moved["C_W"] + 0.01 - 0.1) and np.isclose(now["C_b"], moved["C_b"] + 0.005)
    settled(page, C_W=now["C_W"])
    assert page.get_attribute("#view-phase svg", "data-mark") == "same"
    assert page.get_attribute("#view-phase .point", "aria-valuetext").startswith("C_W")
    assert page.input_value("#n-C_W") == f"{now['C_W']:.5g}"
    quiet(page, server)


def test_an_address_restores_the_view_and_so_does_a_reload(opened, server):
    page = opened(f"{server}#activation=relu&depth=4&C_W=2&tensors=A,B&view=flow")
    assert page.locator("#view-flow svg").count() == 5
    assert page.input_value("#f-activation") == "relu" and page.input_value("#n-depth") == "4"
    assert "R, S, T, U do not exist" in page.inner_text("#absent")
    slide(page, "C_b", 0.25)
    when(page, "location.hash.includes('C_b=0.25')")
    page.reload()
    shown(page)
    assert page.evaluate(SETTINGS)["C_b"] == 0.25 and page.input_value("#f-activation") == "relu"
    page.evaluate("location.hash = 'depth=3'")
    when(page, "neftExplore.page.settings.depth === 3 && neftExplore.page.settings.activation === 'tanh'")
    page.evaluate("location.hash = 'depth=3&tab=train&time=3'")
    when(page, "neftExplore.page.regression.infinite && document.querySelector('#f-time').value === '3'")
    last = page.evaluate("neftExplore.page.regression.infinite.times.length") - 1
    for time, index in (("5", 5), ("-1", last), ("4", 4), ("2.5", last), ("6", 6), ("99", last)):
        page.wait_for_timeout(300)  # the address before it is written
        page.evaluate("time => { location.hash = `depth=3&tab=train&time=${time}`; }", time)
        when(page, f"document.querySelector('#f-time').value === '{index}' && location.hash.includes('time={index}')")
    quiet(page, server)


def test_what_stands_in_an_address_is_text(opened, server):
    page = opened(f"{server}#activation=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3Ez&view=%22%3E%3Cscript%3E", wait=False)
    when(page, "document.querySelector('#e-activation').textContent.includes('img')")
    assert page.locator("img").count() == 0 and page.locator("main script").count() == 0
    quiet(page, server)


def test_bad_values_get_a_sentence_beside_their_field(opened, server):
    page = opened(server)
    page.fill("#n-depth", "500")
    when(page, "document.querySelector('#e-depth').textContent === 'depth is 500, but must be at most 128.'")
    assert page.get_attribute("#n-depth", "aria-invalid") == "true"
    # Nothing stands there that is about another network.
    when(page, "neftExplore.page.flow === null && document.querySelectorAll('#panel-start .missing').length === 3")
    assert page.locator("#view-flow svg, #view-density svg, #view-ntk svg").count() == 0
    assert page.is_disabled("#view-flow .tools >> text=SVG") and page.is_disabled("#view-ntk .tools >> text=JSON")
    page.fill("#n-depth", "")
    assert page.inner_text("#e-depth") == "Depth must be a whole number."
    page.fill("#n-depth", "6")
    settled(page, depth=6)
    assert page.inner_text("#e-depth") == "" and page.is_enabled("#view-flow .tools >> text=SVG")
    assert page.locator("#view-flow svg").count() == 3 and page.locator("#panel-start .missing").count() == 0
    page.select_option("#f-activation", "")
    page.fill("#f-expression", "z*sigmoid(1.7*z")
    when(page, "document.querySelector('#e-activation').textContent.includes(\"')'\")")
    page.fill("#f-expression", "z*sigmoid(1.7*z)")
    settled(page, activation="z*sigmoid(1.7*z)")
    page.route("**/api/flow", lambda route: route.fulfill(status=500, body="Internal Server Error"))
    slide(page, "depth", 3)
    says = "The server gave no answer that can be read (status 500): start neft explore again."
    when(page, "says => document.querySelector('#verdict').textContent === says", says)


def test_the_diagram_of_a_new_function_comes_before_anything_else_of_it(opened, server):
    page = opened(server)
    when(page, "neftExplore.page.phases?.fine")
    asked = len(page.asked)
    page.select_option("#f-activation", "")
    page.fill("#f-expression", "tanh(z)+0.05*z")
    when(page, "!!neftExplore.page.phases?.fine && neftExplore.page.flowOf?.activation === 'tanh(z)+0.05*z'")
    computing = [url.rpartition("/")[2] for url in page.asked[asked:] if "/api/" in url]
    assert computing[:2] == ["phases", "flow"] and "run" in computing[2:]
    (star,) = page.evaluate("neftExplore.page.phases.points")
    (known,) = neft.width.critical("tanh(z)+0.05*z").points
    assert np.isclose(star["C_W"], known.C_W, rtol=1e-5) and np.isclose(star["C_b"], known.C_b, atol=1e-6)
    # What is fine in the picture of a user's own function is its grid.
    found = page.evaluate("neftExplore.page.phases")
    exact = neft.width.phase("tanh(z)+0.05*z", [0.5], found["C_W"][::13])
    row = np.argmin(np.abs(np.array(found["C_b"]) - 0.5)) * len(found["C_W"])
    np.testing.assert_allclose(found["chi"][row : row + len(found["C_W"]) : 13], exact.perpendicular[0], rtol=2e-4)
    quiet(page, server)


def test_the_buttons_give_code_picture_and_numbers(opened, server, tmp_path):
    page = opened(f"{server}#depth=3&C_W=1.5")
    page.click("#view-density .tools >> text=Code")
    page.wait_for_selector("#code[open]")
    python, shell = page.inner_text("#code-python"), page.inner_text("#code-shell")
    assert shell == "neft stats --activation tanh --depth 3 --width 16 --C-W 1.5 --interpret --plot density.svg"
    assert "neft.MLP((16, *[16] * 2, 1), 'tanh', C_W=1.5)" in python
    assert "depth=3" in page.inner_text("#code-address") and serious(page) == []
    page.click("#code >> text=Close")
    with page.expect_download() as download:
        page.click("#view-flow .tools >> text=JSON")
    download.value.save_as(tmp_path / "flow.json")
    stats = neft.load(tmp_path / "flow.json")
    np.testing.assert_allclose(stats.V, neft.width.statistics(Settings(depth=3, C_W=1.5).network(), np.ones(16)).V)
    with page.expect_download() as download:
        page.click("#view-phase .tools >> text=SVG")
    download.value.save_as(tmp_path / "phase.svg")
    picture = opened((tmp_path / "phase.svg").as_uri(), wait=False)
    assert picture.locator("svg").count() > 1 and picture.locator("script, foreignObject").count() == 0
    assert "ordered" in (tmp_path / "phase.svg").read_text()
    quiet(page, server)


def test_two_tabs_draw_networks_at_once_and_a_change_cancels_them(opened, server):
    one, two = (opened(f"{server}#activation=relu&C_W=2&depth=2&width=8&draws=500&seed={seed}") for seed in (1, 2))
    for page in (one, two):
        page.click("#draw")
        assert page.is_visible("#draw-progress") and page.is_visible("#draw-stop")
    for page in (one, two):
        when(page, "neftExplore.page.drawn?.tensors")
        assert page.is_hidden("#draw-progress") and "500 drawn networks" in page.inner_text("#view-flow .caption")
    # Of one hidden layer V is exact at any width, and what is drawn of K has no error.
    means = [page.evaluate("neftExplore.page.drawn.tensors.V.mean") for page in (one, two)]
    errors = one.evaluate("neftExplore.page.drawn.tensors.V.stderr")
    theory = one.evaluate("neftExplore.page.flow.tensors.V")
    assert means[0] != means[1] and abs(means[0][-1] - theory[-1]) < 5 * errors[-1] < theory[-1]
    slide(one, "depth", 4)
    assert one.evaluate("neftExplore.page.drawn") is None
    one.click("#draw")
    slide(one, "depth", 5)
    assert one.is_visible("#draw") and one.is_hidden("#draw-stop")
    assert two.evaluate("neftExplore.page.drawn.draws") == 500
    quiet(two, server)


@pytest.mark.parametrize(("size", "scheme"), [((390, 844), "dark"), ((1280, 900), "light")], ids=["phone", "desktop"])
def test_everybody_can_use_the_page(opened, server, size, scheme):
    address = f"{server}#residual=one&norm=rms&depth=4&width=8"
    page = opened(address, size=size, color_scheme=scheme, reduced_motion="reduce")
    when(page, "neftExplore.page.phases")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert serious(page) == []
    for view in ("phase", "flow", "density", "ntk"):
        card = page.locator(f"#view-{view}")
        assert len(card.locator(".caption").inner_text()) > 20 and card.locator("svg").first.get_attribute("aria-label")
        card.locator("summary").first.click()
        assert card.locator("table tbody tr").count() >= 1
    said = page.inner_text("#absent")
    assert "are not known for tanh: it has no recursion through the norm of the repeated block yet" in said
    assert page.evaluate(MOVING) == 0
    page.evaluate("scrollTo(0, 0)")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(15, 19, 26)") == (scheme == "dark")
    quiet(page, server)


def test_the_second_tab_shows_trained_functions_over_time(opened, server):
    page = opened(server)
    page.focus("#tab-start")
    page.keyboard.press("ArrowRight")
    when(page, "neftExplore.page.regression.infinite")
    assert page.is_visible("#view-regression svg") and page.is_hidden("#panel-start") and serious(page) == []
    found = page.evaluate("neftExplore.page.regression.infinite")
    x, y = zip(*Settings().points)
    net = Settings().network(inputs=1)
    known = neft.training.predict(net, np.array(x)[:, None], y, np.array(found["x"])[:, None])
    np.testing.assert_allclose(found["mean"][-1], known.mean[:, 0], atol=2e-4)
    np.testing.assert_allclose(found["mean"][0], 0, atol=1e-9)
    before = page.inner_text("#time")
    page.evaluate("e => { e.value = 3; e.dispatchEvent(new Event('input')); }", page.query_selector("#f-time"))
    assert page.inner_text("#time") != before and before == "t = ∞, to the end"
    box = page.locator("#view-regression svg").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.3)
    assert len(page.evaluate(SETTINGS)["points"]) == 7
    when(page, "location.hash.includes('points=') && location.hash.includes('tab=train')")
    page.fill("#f-points", "0.2, 1\n1, 0")
    when(page, "neftExplore.page.settings.points.length === 2")
    quiet(page, server)


def test_networks_are_trained_to_the_last_time_and_corrected_at_this_width(opened, server):
    page = opened(f"{server}#tab=train&depth=2&width=64&C_b=0.1&points=-1,0.5;0.4,-0.6")
    when(page, "neftExplore.page.regression.infinite")
    last = page.evaluate("neftExplore.page.regression.infinite.times.length") - 2
    page.click("#train")
    when(
        page, f"neftExplore.page.regression.trained?.moments[{last}] && document.querySelector('#job-progress').hidden"
    )
    # Who looked at the end of training sees the last time that simulation reaches.
    assert page.evaluate("neftExplore.page.regression.index") == last and "32 networks trained" in page.inner_text(
        "#view-regression .caption"
    )
    found = page.evaluate("neftExplore.page.regression.trained")
    x, moment = np.array(found["x"]), found["moments"][last]
    theory = page.evaluate("neftExplore.page.regression.infinite")
    mean = np.interp(x, theory["x"], theory["mean"][last])
    # Beyond chance there is what is of order 1/width.
    assert np.all(np.abs(moment["mean"] - mean) < 5 * np.array(moment["stderr"]) + 4 / 64)
    page.click("#finite")
    when(page, "neftExplore.page.regression.finite && document.querySelector('#job-progress').hidden")
    finite = page.evaluate("neftExplore.page.regression.finite")
    net, at = Settings(depth=2, width=64, C_b=0.1).network(inputs=1), np.array(finite["x"])[::6, None]
    options = {"order": 1, "time": float(found["times"][last]), "rtol": 1e-4}
    known = neft.training.predict(net, [[-1.0], [0.4]], [0.5, -0.6], at, **options)
    np.testing.assert_allclose(finite["mean"][last][::6], known.mean[:, 0], atol=2e-3)
    np.testing.assert_allclose(finite["std"][last][::6], known.std[:, 0], atol=2e-3)
    assert page.is_hidden("#trusted")
    page.fill("#n-width", "4")
    settled(page, width=4)
    page.click("#finite")
    when(page, "!document.querySelector('#trusted').hidden")
    needs = round(64 * finite["expansion"] / 0.25 + 0.5)  # it goes as 1/width
    assert page.inner_text("#trusted") == f"Show 2 layers of width {needs} instead"
    page.click("#trusted")
    when(page, "wanted => neftExplore.page.settings.width === wanted && neftExplore.page.regression.finite", needs)
    assert page.is_hidden("#trusted")
    slide(page, "depth", 11)
    when(page, "document.querySelector('#finite-limit').textContent.startsWith('up to 10 layers, in ten seconds')")
    page.click("#train")
    page.click("#finite")
    when(page, "document.querySelector('#e-depth').textContent.includes('made for at most 10 layers')")
    # Networks are being trained all the same.
    assert page.is_visible("#job-stop") and page.is_visible("#job-progress")
    page.click("#job-stop")
    assert page.is_hidden("#job-stop")
    quiet(page, server)


def test_a_killed_server_is_noticed_and_found_again(opened, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with serving("--port", port, state=tmp_path) as (process, address):
        page = opened(address)
        kept = tmp_path / "neft" / f"explore-{port}"
        assert kept.read_text() == address.partition("token=")[2] and kept.stat().st_mode & 0o777 == 0o600
        process.send_signal(signal.SIGKILL)
        process.wait()
    when(page, "!document.querySelector('#banner').hidden")
    assert "Start it again" in page.inner_text("#banner")
    page.mouse.wheel(0, 2000)
    until(lambda: page.evaluate("scrollY > 500"))
    assert page.locator("#banner").bounding_box()["y"] == 0  # in sight wherever one is
    slide(page, "depth", 3)
    with serving("--port", port, state=tmp_path) as (_, again):
        assert again == address
        when(page, "document.querySelector('#banner').hidden")
        settled(page, depth=3)


def test_a_busy_port_is_told_and_ctrl_c_ends_the_server(tmp_path):
    with serving(state=tmp_path) as (process, address):
        port = address.split(":")[2].partition("/")[0]
        line = [sys.executable, "-c", "from neft.cli import main; main()", "explore", "--no-browser", "--port", port]
        there = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        second = subprocess.run(line, capture_output=True, text=True, env=there)
        assert second.returncode == 2 and f"port is {port}, but something listens there already" in second.stderr
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130 and said == "neft: interrupted.\n"


def test_a_page_without_the_token_says_so(opened, server):
    page = opened(server.partition("?")[0], wait=False)
    when(page, "!document.querySelector('#banner').hidden")
    assert "token" in page.inner_text("#banner")
    when(page, "document.querySelector('#verdict').textContent.includes('token')")
    assert [words for words in page.said if "403" not in words] == []


def test_a_new_diagram_within_a_second_and_sliders_in_a_tenth_of_it_while_networks_are_drawn(opened, server):
    if os.getloadavg()[0] > 1.0:
        pytest.skip(f"the machine is at work (load {os.getloadavg()[0]:.1f}), so that times of the page mean nothing")
    page = opened(server)
    when(page, "neftExplore.page.phases?.fine")
    slide(page, "C_W", 1.2)
    settled(page, C_W=1.2)
    page.wait_for_timeout(2000)
    for own in ("z*sigmoid(1.3*z)", "max(z,0)+0.3*sin(z)", "z*exp(-z^2)"):
        page.evaluate("own => { neftExplore.page.coarseTime = null; neftExplore.page.set({ activation: own }); }", own)
        when(page, "neftExplore.page.coarseTime !== null && neftExplore.page.phases?.fine")
        print(json.dumps({"activation": own, "coarse": page.evaluate("neftExplore.page.coarseTime")}))
        assert page.evaluate("neftExplore.page.coarseTime") < 1000
    page.evaluate("neftExplore.page.set({ activation: 'tanh' })")
    settled(page, activation="tanh")
    page.wait_for_timeout(2000)
    for drawing in (False, True):
        page.evaluate("neftExplore.page.timings.length = 0")
        other = opened(f"{server}#depth=32&width=64&draws=5000") if drawing else None
        if other is not None:
            other.click("#draw")
        for i in range(50):
            slide(page, "C_W" if i % 2 else "depth", 1 + 0.02 * i if i % 2 else 4 + i)
            until(lambda: not page.evaluate("neftExplore.page.asking"))
        times = page.evaluate("neftExplore.page.timings")
        print(json.dumps({"drawing": drawing, "median": np.median(times), "95 %": np.quantile(times, 0.95)}))
        assert len(times) >= 50 and np.quantile(times, 0.95) < 100
        if other is not None:
            assert other.is_visible("#draw-progress")
            other.click("#draw-stop")
