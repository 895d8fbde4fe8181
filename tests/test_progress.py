import contextlib
import io
import sys
from types import SimpleNamespace

import pytest

from neft import _progress
from neft._blocks import blocks
from neft._progress import be_quiet, track

HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"  # what a terminal is told about its cursor


@pytest.fixture
def clock(monkeypatch):
    """Time as the bar sees it, which only a test moves."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(_progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def running(monkeypatch):
    """Asks whether a bar is running."""
    bars, make = [], _progress._bar
    monkeypatch.setattr(_progress, "_bar", lambda: bars.append(make()) or bars[-1])
    return lambda: any(bar.live.is_started for bar in bars)


@pytest.fixture
def terminal(monkeypatch, running):
    """A block in which stderr is a terminal and after which no bar is left; it gives a function: what is on stderr."""
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")

    # Not the fixture itself: pytest puts its own stderr in place between a fixture and its test.
    @contextlib.contextmanager
    def block():
        with contextlib.redirect_stderr(Screen()) as stderr:
            yield stderr.getvalue
            assert sys.stderr is stderr and not running()
        assert stderr.getvalue().count(HIDDEN) == stderr.getvalue().count(SHOWN)

    return block


@pytest.fixture
def loud():
    yield
    be_quiet(False)


def slow(clock, seconds, items):
    """The items, each asked for `seconds` after the one before."""
    for item in items:
        yield item
        clock.now += seconds


def test_nothing_is_printed_where_there_is_no_terminal(clock):
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        assert list(track(slow(clock, 10.0, "abc"), "counting")) == ["a", "b", "c"]
    assert clock.now == 30.0 and stderr.getvalue() == ""


def test_quick_work_shows_no_bar(clock, terminal):
    with terminal() as sent:
        assert list(track(slow(clock, 0.2, range(10)), "counting")) == list(range(10))
        assert sent() == ""


def test_the_bar_appears_once_two_seconds_have_passed_and_goes_away(clock, terminal):
    with terminal() as sent:
        seen = []
        for i in track(range(4), "counting"):
            clock.now += 0.9
            seen.append((i, "counting" in sent()))
        assert seen == [(0, False), (1, False), (2, False), (3, True)]
        assert sent().endswith("\x1b[2K")  # the line is wiped


@pytest.mark.parametrize(
    ("items", "options", "shown"), [("abc", {}, "1/3"), (iter("abc"), {}, "1/?"), (iter("abc"), {"total": 3}, "1/3")]
)
def test_the_bar_says_how_much_is_done(clock, terminal, items, options, shown):
    with terminal() as sent:
        steps = track(items, "counting", **options)
        next(steps)
        clock.now += 3.0
        next(steps)
        assert shown in sent()
        steps.close()


def test_items_pass_unchanged_under_a_bar(clock, terminal):
    items = [object() for _ in range(5)]
    with terminal() as sent:
        assert all(a is b for a, b in zip(track(slow(clock, 3.0, items), "counting"), items, strict=True))
        assert "counting" in sent()


def test_blocks_show_their_label(clock, terminal):
    with terminal() as sent:
        for _ in blocks(10, 5, label="layer by layer"):
            clock.now += 3.0
        assert "layer by layer" in sent()


def test_be_quiet_switches_the_bar_off_and_on(clock, terminal, loud):
    with terminal() as sent:
        be_quiet()
        assert list(track(slow(clock, 3.0, range(3)), "counting")) == [0, 1, 2]
        assert sent() == ""
        be_quiet(False)
        assert list(track(slow(clock, 3.0, range(3)), "counting")) == [0, 1, 2]
        assert "counting" in sent()


def test_a_consumer_that_stops_early_leaves_no_bar_running(clock, terminal, running):
    with terminal() as sent:
        for i in track(slow(clock, 3.0, range(100)), "counting"):
            if i == 2:
                assert running()
                break
        assert not running() and SHOWN in sent()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_of_the_work_stops_the_bar_and_passes(clock, terminal, error):
    def work():
        yield from slow(clock, 3.0, range(3))
        raise error

    with terminal() as sent:
        with pytest.raises(error):
            list(track(work(), "counting"))
        assert SHOWN in sent()
