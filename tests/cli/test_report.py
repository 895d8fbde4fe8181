import os
import signal
import time

import pytest

from neft.report import _sections

QUICK = ("--quick", "--subset")


def shown(context):
    return f"<p>{context.of.net!r} {context.of.train.name} {context.quick}</p><p>{context.command}</p>"


@pytest.fixture
def short(monkeypatch):
    """A page whose one section shows what it was given."""
    monkeypatch.setattr(_sections, "SECTIONS", [("Given", shown)])


def test_the_page_is_about_the_network_and_data_of_the_options(neft, short, tmp_path):
    line = ("--activation", "gelu", "--depth", 4, "--width", 7, "--C-W", "1.9", "--C-b", "0.1", *QUICK, "--seed", 3)
    result = neft("report", *line, "--out", tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert result.exit_code == 0 and result.stdout.endswith(f"a.html: 1 sections in {result.stdout.split()[-2]} s\n")
    assert "widths=(49, 7, 7, 7, 10)" in text and "C_W=1.9" in text and "fashion-mnist (bundled subset) True" in text
    command = "neft report --activation gelu --depth 4 --width 7 --C-b 0.1 --C-W 1.9 --seed 3 --subset --quick"
    assert f"{command} --out a.html" in text


def test_data_of_ones_own_and_whole_widths(neft, short, tmp_path):
    import numpy as np

    np.savez(tmp_path / "mine.npz", x=np.random.default_rng(0).normal(size=(12, 3)), y=np.arange(12) % 2)
    result = neft("report", "--data", tmp_path / "mine.npz", "--widths", "3,5,2", "--out", tmp_path / "a.html")
    assert result.exit_code == 0, result.stderr
    assert "widths=(3, 5, 2)" in (tmp_path / "a.html").read_text()


def test_a_network_from_a_file_and_data_that_fit_it(neft, short, tmp_path):
    file, out = tmp_path / "net.toml", tmp_path / "a.html"
    blocks = '[{ type = "Dense", width = 6 }, { type = "Residual", branch = ["tanh", { type = "Dense", width = 6 }] }'
    file.write_text(f'inputs = 784\nblocks = {blocks}, {{ type = "Dense", width = 10 }}]\n')
    result = neft("report", "--network", file, "--subset", "--out", out)
    assert result.exit_code == 0, result.stderr
    text = out.read_text()
    assert "Network(784, [Dense(6," in text and "neft report --network net.toml --subset --out a.html" in text
    assert str(tmp_path) not in text


def test_short_options_of_blocks(neft, short, tmp_path):
    line = ("--depth", 4, "--width", 6, "--residual", "--skip", 0, "--norm", "layer", *QUICK)
    assert neft("report", *line, "--out", tmp_path / "a.html").exit_code == 0
    text = (tmp_path / "a.html").read_text()
    assert "Residual(LayerNorm(epsilon=1e-06), Nonlinearity(&#x27;tanh&#x27;)" in text.replace("'", "&#x27;")
    assert "Network(49" in text and "skip=0)" in text
    command = "neft report --depth 4 --width 6 --residual --skip 0.0 --norm layer --subset --quick --out a.html"
    assert command in text


def test_quiet_says_nothing(neft, short, tmp_path):
    before = signal.getsignal(signal.SIGINT)
    result = neft("report", "--subset", "--quiet", "--out", tmp_path / "a.html")
    assert (result.exit_code, result.output) == (0, "") and (tmp_path / "a.html").exists()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--activation tahn", "did you mean 'tanh'"),
        ("--depth 0", "--depth is 0"),
        ("--width 8 --widths 49,8,10", "--width cannot be given"),
        ("--widths 49,8,3", "the network has 3 outputs"),
        ("--inputs 7", "the network has 7 inputs"),
        ("--C-W=-1", "C_W is -1"),
        ("--network none.toml", "cannot be read"),
        ("--skip 2", "goes with --residual"),
        ("--norm batch", "--norm is 'batch'"),
        ("--data nothing", "nothing"),
        ("--preprocess pool", "preprocess"),
        ("--seed=-1", "seed is -1"),
        ("--out page.txt", "must end in .html"),
        ("--out no/such/page.html", "is not a folder"),
        ("--out /proc/page.html", "cannot write '/proc/page.html'"),
        ("--quick --nothing", "No such option"),
    ],
)
def test_bad_options_are_one_sentence_and_no_file(neft, monkeypatch, tmp_path, line, says):
    monkeypatch.chdir(tmp_path)
    result = neft("report", "--subset", *line.split())
    (sentence,) = result.stderr.splitlines()
    assert result.exit_code == 2 and result.stdout == ""
    assert sentence.startswith("neft: ") and says in sentence
    assert not list(tmp_path.iterdir())


def test_an_interrupt_while_the_page_is_written_comes_too_late(tmp_path, monkeypatch):
    from neft import report
    from neft.report import _write

    def page(*given):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        return "whole"

    monkeypatch.setattr(_write, "page", page)
    handler = signal.getsignal(signal.SIGINT)
    report.write(tmp_path / "page.html", sections=[("One", lambda context: "")])
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "whole"
    assert signal.getsignal(signal.SIGINT) is handler
