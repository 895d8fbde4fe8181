"""Every citation leads somewhere: to an equation of docs/theory by its number, or to a work of docs/references.bib."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THEORY = ROOT / "docs" / "theory"
INDEX = THEORY / "index.md"
PAGES = {path.stem: path.read_text() for path in sorted(THEORY.glob("*.md"))}
WRITTEN = {".py", ".md", ".toml", ".json", ".css", ".bib", ".cff", ".cfg", ".ini", ".yml", ".yaml", ".txt", ""}
# Made from the rest, or by others.
LEFT_OUT = ("docs/_build", "docs/api", "tests/gold.json", "tests/docs/test_citations.py")

TAG = re.compile(r"\\tag\{(\d+)\}")
DISPLAY = re.compile(r"\$\$.*?\$\$", flags=re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", flags=re.MULTILINE)
NUMBERS = r"\d+(?:-\d+)?(?:(?:, | and )\d+(?:-\d+)?)*"
EQUATIONS = re.compile(rf"docs/theory/(\w+), eqs?\. ({NUMBERS})")
SECTION = re.compile(r"docs/theory/(\w+), section ([A-Z][\w ]*)")
PAGE = re.compile(r"docs/theory/(\w+)")
LINK = re.compile(r"\]\(([\w/.]*?)#eq-(\d+)\)")
SURNAME = r"[A-ZŞ][a-zş]+(?:-?[A-Z][a-z]+)*"
WORK = re.compile(rf"\b({SURNAME}(?:, {SURNAME})*)( et al\.)? ((?:19|20)\d\d)\b")
NO_SURNAMES = {"January", "February", "March", "April", "May", "June", "July", "August", "September", "October"}
NO_SURNAMES |= {"November", "December", "In", "Since", "Copyright"}

# Names of sources that a reader of the repository does not have, and numbers that once stood for them.
FORGOTTEN = re.compile(
    r"theory\.md|finite_width\.md|\b[Ss]eeds? ?0\d\d\b|\b[Ss]eed document|\bthe seeds\b|\bseeds' |\bseed's (?!steps)"
    r"|\b00[0-4]-[a-z]"
)
# What is still understood of the names of before has to name them.
STILL_UNDERSTOOD = {
    "CHANGELOG.md",
    "src/neft/claims/_older.py",
    "src/neft/claims/_sweep.py",
    "src/neft/sweep/_specification.py",
    "tests/claims/test_older.py",
    "tests/sweep/test_claims.py",
    "tests/sweep/test_sweep.py",
}


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def sources():
    """All texts of the repository by path, each paragraph and comment on one line."""
    folders = [ROOT / name for name in ("src", "tests", "docs", "benchmarks", "tools")]
    paths = [path for folder in folders for path in folder.rglob("*")] + list(ROOT.iterdir())
    for path in sorted(paths):
        name = name_of(path)
        hidden = any(part.startswith((".", "__pycache__")) or part.endswith(".egg-info") for part in path.parts)
        if path.is_file() and path.suffix in WRITTEN and not hidden and not name.startswith(LEFT_OUT):
            try:
                yield name, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def joined(text):
    return re.sub(r"\s*\n[ \t]*(?:#(?!#)[ \t]?)?", " ", text)


TEXTS = {name: (text, joined(text)) for name, text in sources()}


def numbers(text):
    """The numbers in "3", "3-5" and "3, 5-6 and 9"."""
    for part in re.split(r", | and ", text):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def bibliography():
    """Surnames in order and year of each entry, by key."""
    text = (ROOT / "docs" / "references.bib").read_text()
    found = {}
    for key, body in re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", text, flags=re.MULTILINE | re.DOTALL):
        fields = dict(re.findall(r"^\s*(\w+)\s*=\s*\{(.*)\},$", body, flags=re.MULTILINE))
        surnames = tuple(author.partition(",")[0] for author in fields["author"].split(" and "))
        found[key] = (surnames, fields["year"])
    return found


BIBLIOGRAPHY = bibliography()


def works(text):
    """The works that a text cites: surnames, whether "et al." follows them, year."""
    for surnames, others, year in WORK.findall(text):
        names = tuple(surnames.split(", "))
        while names and names[0] in NO_SURNAMES:
            names = names[1:]
        if names:
            yield names, bool(others), year


def entries(names, others, year):
    """Keys of the entries that a citation can mean."""
    for key, (surnames, published) in BIBLIOGRAPHY.items():
        if published == year and (names == surnames[:1] and len(surnames) > 2 if others else names == surnames):
            yield key


@pytest.mark.parametrize("page", [page for page in PAGES if page != "index"])
def test_every_formula_of_a_page_has_the_next_number(page):
    displays = DISPLAY.findall(PAGES[page])
    assert displays and all(len(TAG.findall(display)) == 1 for display in displays)
    assert [int(number) for number in TAG.findall(PAGES[page])] == list(range(1, len(displays) + 1))


def test_every_equation_that_is_cited_exists():
    cited = 0
    for name, (_, text) in TEXTS.items():
        for page, listed in EQUATIONS.findall(text):
            assert page in PAGES, f"{name} cites docs/theory/{page}"
            last = len(TAG.findall(PAGES[page]))
            for number in numbers(listed):
                assert 1 <= number <= last, f"{name} cites docs/theory/{page}, eq. {number} of {last}"
                cited += 1
    assert cited > 100


def test_every_page_and_section_that_is_cited_exists():
    for name, (_, text) in TEXTS.items():
        for page in PAGE.findall(text):
            assert page in PAGES, f"{name} names docs/theory/{page}"
        for page, section in SECTION.findall(text):
            headings = HEADING.findall(PAGES[page])
            assert any(heading.startswith(section.strip()) for heading in headings), f"{name}: {page}, {section}"


def test_links_to_equations_lead_to_them():
    linked = 0
    for name, (text, _) in TEXTS.items():
        for target, number in LINK.findall(text) if name.endswith(".md") else ():
            page = (ROOT / name).parent / target if target else ROOT / name
            assert page.resolve().parent == THEORY, f"{name} links to {target}#eq-{number}"
            assert f"\\tag{{{number}}}" in PAGES[page.stem], f"{name} links to {target}#eq-{number}"
            linked += 1
    assert linked > 10


def test_every_work_that_is_cited_is_in_the_bibliography():
    for name, (_, text) in TEXTS.items():
        if not name.endswith(".json"):
            for names, others, year in works(text):
                cited = f"{', '.join(names)}{' et al.' if others else ''} {year}"
                assert len(list(entries(names, others, year))) == 1, f"{name} cites {cited}"


def test_every_work_of_the_bibliography_is_cited_and_listed():
    assert len(BIBLIOGRAPHY) > 8
    cited = {
        key
        for name, (_, text) in TEXTS.items()
        if name not in (name_of(INDEX), "docs/references.bib")
        for work in works(text)
        for key in entries(*work)
    }
    assert sorted(BIBLIOGRAPHY.keys() - cited) == []
    listed = re.findall(rf"^- ({SURNAME}(?:, {SURNAME})*) (\d{{4}}): ", PAGES["index"], flags=re.MULTILINE)
    assert listed == sorted((", ".join(surnames), year) for surnames, year in BIBLIOGRAPHY.values())


def test_nothing_cites_what_a_reader_does_not_have():
    for name, (_, text) in TEXTS.items():
        if name not in STILL_UNDERSTOOD:
            assert FORGOTTEN.findall(text) == [], name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(docs/theory/width, eqs. 3, 5-6 and 9)", [("width", [3, 5, 6, 9])]),
        ("# as docs/theory/width,\n    # eq. 3 says", [("width", [3])]),
        ("docs/theory/fisher, eq. 3; Sun, Nielsen 2017, eq. 12", [("fisher", [3])]),
    ],
)
def test_citations_of_equations_are_found(text, found):
    assert [(page, list(numbers(listed))) for page, listed in EQUATIONS.findall(joined(text))] == found


def test_citations_of_works_are_found_and_told_apart():
    text = "after Roberts, Yaida, Hanin 2022, §4 and Desjardins et al. 2015; see Sun, Nielsen 2016 and Nielsen 2017"
    found = list(works(text))
    assert [len(list(entries(*work))) for work in found] == [1, 1, 0, 0]
    assert list(entries(("Martens",), True, "2015")) == [] and list(works("in November 2026, by seed 2017")) == []
    assert FORGOTTEN.findall("theory.md 2.1, seed 003 and the seeds' J") and not FORGOTTEN.findall("the seed of a draw")
