import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from neft.cli import app

COMMANDS = ("activation", "network", "data", "claims", "report", "show")


def test_importing_the_command_line_leaves_heavy_modules_out():
    code = "import sys; from neft.cli import app; "
    code += "print(sorted({'jax', 'numpy', 'matplotlib', 'scipy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_help_takes_less_than_half_a_second_of_cpu(process):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process("--help").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_the_shell_completes_commands_and_options_without_jax(process):
    asked = {"_NEFT_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    assert process(**asked, COMP_WORDS="neft ad").stdout.split() == ["advise"]
    assert "--activation" in process(**{**asked, "COMP_CWORD": "2"}, COMP_WORDS="neft stats --act").stdout.split()


def test_version(neft):
    assert neft("--version").stdout == "neft 0.1.0\n"


def test_without_a_command_the_help_is_shown(neft):
    result = neft()
    assert result.exit_code == 0
    assert all(command in result.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example(neft, command):
    result = neft(command, "--help")
    assert result.exit_code == 0
    assert f"Example: neft {command}" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("activation tahn", "did you mean 'tanh'"),
        ("activation tanh --order -1", "order is -1"),
        ("activation tanh --order x", "--order"),
        ("network --widths 3,0,1", "must be at least 1"),
        ("network --widths 3,x,1", "--widths is '3,x,1'"),
        ("network --widths 7", "at least two numbers"),
        ("network --width 8 --widths 8,8,1", "--width cannot be given"),
        ("network --depth 2 --widths 8,8,1", "--depth cannot be given"),
        ("network --depth 0", "--depth is 0"),
        ("network --width 0", "--width is 0"),
        ("network --C-b=-1", "C_b is -1"),
        ("network --C-W 1,2", "one for each of the 3 layers"),
        ("network --lambda-b a", "--lambda-b is 'a'"),
        ("network --lambda-W nan", "lambda_W is nan"),
        ("network --draws 1", "draws is 1"),
        ("network --plot a.gif", "must end in .svg or .png or .pdf"),
        ("network --out a.txt", "must end in .toml or .json or .npz"),
        ("network --out no/such/folder/a.json", "is not a folder"),
        ("data nothing", "nothing"),
        ("data fashion-mnist --split valid", "split is 'valid'"),
        ("claims no-such", "no-such"),
        ("claims --level slow", "level is 'slow'"),
        ("claims --keep", "--keep goes with --level full"),
        ("claims a --kept", "--kept tests nothing"),
        ("show no/such.json", "cannot read"),
        ("show README.md", "must end in .json or .npz"),
        ("report --out page.txt", "must end in .html"),
        ("nothing", "No such command"),
        ("network --nothing", "No such option"),
        ("show", "Missing argument"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(neft, line, says):
    result = neft(*line.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("neft: ") and says in sentence


@pytest.mark.parametrize(
    "line",
    [
        "activation tahn",
        *(
            pytest.param(f"network {line}", marks=pytest.mark.slow)
            for line in ("--widths 0,1", "--width 8 --widths 8,1", "--C-b=-1")
        ),
        "show a.json",
    ],
)
def test_the_program_shows_no_traceback(process, line):
    result = process(*line.split())
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "Traceback" not in result.stderr


def test_a_variable_brings_the_traceback_back(process):
    result = process("show", "no/such.json", NEFT_DEBUG="1")
    assert result.returncode == 1 and "Traceback" in result.stderr


def test_a_pipe_gets_plain_text(process):
    result = process("data", FORCE_COLOR="1", TERM="xterm-256color")
    assert result.returncode == 0
    assert "\x1b" not in result.stdout and "fashion-mnist" in result.stdout


def test_a_closed_pipe_is_silent():
    program = Path(sys.executable).with_name("neft")
    shell = f"set -o pipefail; '{program}' data fashion-mnist --json | true; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert result.stderr == ""


def test_warnings_are_sentences(monkeypatch, recwarn):
    import warnings

    from typer.testing import CliRunner

    from neft import describe

    def warned(*args, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("twelve digits were not reached.", stacklevel=2)
        return describe.available()

    monkeypatch.setattr(describe, "activation", warned)
    result = CliRunner().invoke(app, ["activation", "tanh"])
    assert result.stderr == "neft: twelve digits were not reached.\n"


def test_json_output_is_one_object(neft):
    record = json.loads(neft("data", "--json").stdout)
    assert record["type"] == "Available" and record["neft"] == 1


def test_a_terminal_shows_every_number_whole(monkeypatch, capsys):
    from neft.cli import _emit
    from neft.report import Table

    monkeypatch.setenv("COLUMNS", "20")
    table = Table(title="T", columns=("name", "x", "y"), rows=(("a long name", "0.123456789", "1.23456789e-10"),))
    _emit._rich((table,))
    shown = capsys.readouterr().out
    assert "0.123456789" in shown and "1.23456789e-10" in shown


def test_a_saved_card_is_shown_without_waiting_for_jax(tmp_path):
    code = "import sys, neft.describe as d, neft.cli; d.available().save(sys.argv[2])\n"
    code += "try: neft.cli.main()\nfinally: print('jax' in sys.modules)"
    command = [sys.executable, "-c", code, "show", str(tmp_path / "a.json")]
    assert subprocess.run(command, capture_output=True, text=True).stdout.endswith("False\n")
