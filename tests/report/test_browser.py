"""Pages in a real browser: nothing asked of anyone, nothing in the way of anything else, usable by everybody."""

import pytest
from browsing import listened, serious

from neft import report

pytestmark = [pytest.mark.xdist_group("whole page"), pytest.mark.slow]

SIZES = {"phone": (390, 844), "desktop": (1280, 900)}

BLOCKS = """() => {
  const chosen = 'h1, h2, h3, p, dt, dd, pre, nav, svg, figcaption, caption, summary, th, td, .formula';
  const seen = [...document.querySelectorAll(chosen)].map(e => [e, e.getBoundingClientRect()])
    .filter(([e, r]) => r.width > 0 && r.height > 0);
  const found = [];
  for (let i = 0; i < seen.length; i++) for (let j = i + 1; j < seen.length; j++) {
    const [a, p] = seen[i], [b, q] = seen[j];
    if (q.top > p.bottom + 2000) break;
    if (a.contains(b) || b.contains(a)) continue;
    // What scrolls sideways inside its own box covers nothing outside of it.
    const outer = e => e.closest('.scroll');
    if (outer(a) && outer(a) === outer(b) && a.tagName === 'CAPTION') continue;
    const w = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (w > 1 && h > 1 && outer(a) === outer(b))
      found.push([a, b].map(e => `${e.tagName} "${e.textContent.trim().slice(0, 40)}"`).join(' and '));
  }
  return found;
}"""

LETTERS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll('figure svg')) {
    const whole = svg.getBoundingClientRect();
    const name = svg.getAttribute('aria-label').slice(0, 40);
    const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim())
      .map(t => [t, t.getBoundingClientRect()]);
    for (const [t, r] of texts)
      if (r.left < whole.left - 3 || r.right > whole.right + 3 || r.top < whole.top - 3 || r.bottom > whole.bottom + 3)
        found.push(`${name}: "${t.textContent.trim()}" leaves the picture`);
    for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length; j++) {
      const [a, p] = texts[i], [b, q] = texts[j];
      const w = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (w > 2 && h > 2 && w * h > 0.2 * Math.min(p.width * p.height, q.width * q.height))
        found.push(`${name}: "${a.textContent.trim()}" and "${b.textContent.trim()}"`);
    }
  }
  return found;
}"""

CONTRAST = """() => {
  const channel = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.match(/[0-9.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
  const ground = light(getComputedStyle(document.body).backgroundColor);
  const low = [];
  for (const e of document.querySelectorAll('p, dd, dt, td, th, h1, h2, h3, a, figcaption, figure svg text')) {
    const style = getComputedStyle(e);
    const colour = light(e.tagName === 'text' && style.fill.startsWith('rgb') ? style.fill : style.color);
    const ratio = (Math.max(colour, ground) + 0.05) / (Math.min(colour, ground) + 0.05);
    if (ratio < 4.5 && !e.closest('[aria-label^="Phase diagram"]')) low.push(`${e.tagName} ${ratio.toFixed(1)}`);
  }
  return low;
}"""


@pytest.fixture(params=[(size, scheme) for size in SIZES for scheme in ("light", "dark")], ids="-".join)
def opened(request, browser, whole):
    size, scheme = request.param
    width, height = SIZES[size]
    page = listened(browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme))
    page.goto(whole[1].as_uri())
    yield page
    page.close()


def test_the_page_stands_in_a_browser(opened, whole):
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [whole[1].as_uri()]
    assert serious(opened) == []
    opened.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert serious(opened) == []
    assert opened.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert opened.evaluate(BLOCKS) == []
    assert opened.evaluate(LETTERS) == []
    assert opened.evaluate(CONTRAST) == []
    assert opened.evaluate("document.querySelectorAll('figure svg').length") >= 15
    opened.emulate_media(media="print")
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert opened.evaluate(CONTRAST) == []


def test_the_first_screen_has_the_answer_and_contents_stay_in_view(opened):
    height = opened.viewport_size["height"]
    wide = opened.viewport_size["width"] > 1000
    bottom = "selector => document.querySelector(selector).getBoundingClientRect().bottom"
    for part in (
        ".verdict",
        ".three",
        *([".first svg", ".first figcaption", ".first pre"] if wide else [".first svg"]),
    ):
        assert 0 < opened.evaluate(bottom, part) <= height, part
    opened.evaluate("document.querySelector('#s5').scrollIntoView()")
    box = opened.evaluate("document.querySelector('nav').getBoundingClientRect().toJSON()")
    assert abs(box["top"]) < 1 and (box["width"] < 200 if wide else box["height"] < 70)
    opened.click("nav a[href='#s3']")
    heading = opened.evaluate("document.querySelector('#h3').getBoundingClientRect().toJSON()")
    assert (0 if wide else box["height"]) <= heading["top"] < height / 3


def test_formulas_are_set_in_the_font_of_the_page(opened):
    # With its measures, an index stands below its letter, and both brackets of a pair are as tall as each other.
    low = "[...document.querySelectorAll('math msub')].filter(e => e.children[1].getBoundingClientRect().bottom <= "
    assert opened.evaluate(low + "e.children[0].getBoundingClientRect().bottom).length") == 0
    assert opened.evaluate("document.fonts.check('16px \"neft math\"')")
    heights = """[...document.querySelectorAll('math mrow')].filter(row => '(⟨'.includes(row.firstChild.textContent))
      .map(row => [row.firstChild, row.lastChild].map(e => e.getBoundingClientRect().height))"""
    found = opened.evaluate(heights)
    assert len(found) >= 4 and all(abs(left - right) < 0.5 for left, right in found)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_claims_are_filtered_by_boxes_and_words(browser, tmp_path, size, scripts):
    count = report.write_claims(tmp_path / "claims.html")
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, java_script_enabled=scripts)
    page = listened(context.new_page())
    page.goto((tmp_path / "claims.html").as_uri())

    def shown():
        return sum(one.is_visible() for one in page.query_selector_all("article"))

    assert shown() == count > 90
    page.get_by_role("checkbox", name="holds").uncheck()
    page.get_by_role("checkbox", name="lecture").uncheck()
    fewer = shown()
    assert 0 < fewer < count / 2 and not page.query_selector("#lecture-four-point").is_visible()
    assert page.query_selector(".search").is_visible() == scripts
    if scripts:
        page.fill("#words", "Factor instead")
        assert 0 < shown() < fewer and page.text_content("#shown") == f"{shown()} of {count} shown"
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.said == [] and page.asked == [(tmp_path / "claims.html").as_uri()]
    context.close()


def test_the_checks_see_what_is_wrong(browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_content("<p>one</p><p style='margin-top: -30px'>two</p><p style='color: #eee'>three</p>")
    assert len(page.evaluate(BLOCKS)) == 1
    page.set_content(
        "<body style='background: #fff'><p style='color: #eee'>three</p><figure><svg aria-label='a' width='99' "
        "height='99'><text x='9' y='50'>one</text><text x='9' y='52'>two</text></svg></figure>"
    )
    assert len(page.evaluate(LETTERS)) == 1 and page.evaluate(CONTRAST) == ["P 1.2"]
    assert any(one.startswith("color-contrast") for one in serious(page))
    page.close()
