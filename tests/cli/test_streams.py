"""Where the output goes: full disks, closed streams, terminals that know ASCII alone, machines without a platform."""

import os
import subprocess
import sys

import pytest

from neft.cli._streams import spelled

NEFT = f"{sys.executable} -c 'from neft.cli import main; main()'"
FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")  # noqa: PTH110


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = line.replace("neft ", f"{NEFT} ")
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


@FULL
@pytest.mark.parametrize(
    ("line", "says", "code"),
    [
        ("neft --version > /dev/full", "cannot write to the standard output: No space left on device.", 2),
        ("neft --help > /dev/full", "cannot write to the standard output: No space left on device.", 2),
        ("neft --version >&-", "cannot write to the standard output: Bad file descriptor.", 2),
        ("neft nothing 2>&-", "", 2),
        ("neft nothing 2>/dev/full", "", 2),
        ("neft --help >&- 2>&-", "", 2),
    ],
)
def test_streams_that_take_nothing_get_one_sentence(line, says, code):
    found = shell(line)
    assert (found.returncode, found.stdout, found.stderr) == (code, "", f"neft: {says}\n" if says else "")


def test_a_reader_that_leaves_is_left_quietly():
    found = shell("set -o pipefail; neft --help | head -c 1")
    assert found.stderr == ""


@pytest.mark.slow
@FULL
@pytest.mark.parametrize("option", ["", "--json"])
def test_results_that_find_no_room_get_one_sentence(option):
    for target, why in (("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
        found = shell(f"neft activation tanh {option} {target}")
        assert (found.returncode, found.stderr) == (2, f"neft: cannot write to the standard output: {why}.\n")
    assert shell("neft activation tanh --quiet >&-").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("platform", "line"), [("foo", "neft stats --widths 3,4,1"), ("tpu", "neft network --widths 3,4,1 --draws 3")]
)
def test_a_platform_that_is_not_there_gets_one_sentence(platform, line):
    found = shell(line, JAX_PLATFORMS=platform)
    assert found.returncode == 2
    assert found.stderr.splitlines()[-1] == (
        f"neft: JAX does not start with JAX_PLATFORMS={platform!r}: unset it, or set it to cpu."
    )
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("character", "plain"),
    [
        ("σ", "sigma"),
        ("Θ", "Theta"),
        ("±", "+-"),
        ("–", "-"),
        ("é", "e"),
        ("χ", "chi"),
        ("₁", "1"),
        ("─", "-"),
        ("☃", "?"),
    ],
)
def test_characters_have_names_in_ascii(character, plain):
    assert spelled(character) == plain
    spelled(character).encode("ascii")


ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ASCII_LINES = [
    "activation 'leaky_relu(0.1)'",
    "network --widths 3,4,1",
    "stats --widths 3,4,4,1 --interpret",
    "check --widths 3,4,1 --draws 4",
    "critical relu",
    "phase relu --points 3",
    "advise relu --depth 3 --width 16",
    "data",
    "claims --help",
]
END = "\x1e"
# Most of what a command takes is to load JAX, so one process runs them all.
IN_TURN = f"""
import shlex, sys, traceback
from neft.cli import main
for line in sys.argv[1:]:
    sys.argv[1:] = shlex.split(line)
    sys.stdout.reconfigure(errors="strict")  # as it is where a process begins
    code = "none"
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    print("{END}", code, "{END}", sep="", end="", flush=True)
    print("{END}", file=sys.stderr, end="", flush=True)
"""


@pytest.fixture(scope="module")
def spoken():
    """By line: its exit code, and all that it says."""
    command = [sys.executable, "-c", IN_TURN, *ASCII_LINES]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **ASCII})
    assert found.returncode == 0, found.stderr
    outs, errs = found.stdout.split(END)[:-1], found.stderr.split(END)[:-1]
    assert len(outs) == 2 * len(ASCII_LINES) == 2 * len(errs)
    return {line: (*one, err) for line, *one, err in zip(ASCII_LINES, outs[1::2], outs[::2], errs)}


@pytest.mark.slow
@pytest.mark.xdist_group("ascii")  # what the fixture makes is made once
@pytest.mark.parametrize("line", ASCII_LINES)
def test_commands_speak_ascii(line, spoken):
    code, out, err = spoken[line]
    assert code in ("0", "None") and len(out) > 40 and "Traceback" not in err, err
    assert (out + err).isascii()


@pytest.mark.slow
def test_what_is_typed_in_greek_is_answered_in_ascii():
    found = shell("neft stats --activation πολύ", **ASCII)
    assert found.returncode == 2 and (found.stdout + found.stderr).isascii() and "Traceback" not in found.stderr
