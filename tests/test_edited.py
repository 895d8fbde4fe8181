"""Files that somebody edited: one sentence from `load`, or from `neft show`, and never a traceback."""

import json

import numpy as np
import pytest
from helpers import one_sentence
from typer.testing import CliRunner

import neft
from neft import MLP, width
from neft.cli import app


@pytest.fixture(scope="module")
def record():
    stats = width.statistics(MLP((3, 4, 4, 1), "tanh"), [1.0, 0.5, 0.2])
    return {"neft": 1, **stats.to_dict()}


def edited(record, path, value):
    """The record with what stands at `path` replaced; a value of KeyError removes it."""
    copy = json.loads(json.dumps(record))
    place = copy
    for name in path[:-1]:
        place = place[name]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copy


EDITS = [
    (("tensors", "K"), [1.0, 2.0], "tensors Theta: it has 3 layers, but tensors K has 2"),
    (("tensors", "K"), 1.0, "tensors K: it has shape ()"),
    (("tensors", "K"), "abc", "'abc' stands where an array should"),
    (("tensors", "K"), ["a", "b", "c"], "stands where an array of numbers should"),
    (("tensors", "K"), [[1.0, 2.0], [3.0]], "stands where an array of numbers should"),
    (("tensors", "K"), {"a": 1}, "stands where an array should"),
    (("tensors",), [1, 2], "tensors: [1, 2] stands where a dict should"),
    (("tensors",), None, "tensors: None stands where a dict should"),
    (("made",), None, "made: None stands where a Made should"),
    (("made",), "me", "made: 'me' stands where a Made should"),
    (("made", "specification"), 3, "specification: 3 stands where a dict should"),
    (("made", "key"), "x", "'x' stands where a list should"),
    (("made", "function"), KeyError, "does not have the fields"),
    (("made", "tolerances"), {"rtol": "small"}, "'small' stands where a number should"),
    (("widths",), "3,4", "widths: '3,4' stands where a list should"),
    (("widths",), ["3"], "'3' stands where a int should"),
    (("activation",), 5, "5 stands where a str should"),
    (("activation",), KeyError, "does not have the fields"),
    (("more",), 1, "does not have the fields"),
    (("neft",), "one", "no format number"),
    (("neft",), 99, "newer neft"),
    (("neft",), KeyError, "no format number"),
]


@pytest.mark.parametrize(("path", "value", "says"), EDITS, ids=lambda v: str(v)[:30])
def test_what_was_edited_is_named(record, tmp_path, path, value, says):
    target = tmp_path / "edited.json"
    target.write_text(json.dumps(edited(record, path, value)))
    with one_sentence(says):
        neft.load(target)
    shown = CliRunner().invoke(app, ["show", str(target)])
    assert shown.exit_code == 2 and shown.stderr.count("\n") == 1 and shown.stderr.startswith("neft: ")


# Of the right form, but not what neft writes: the file loads, and showing it gets a sentence.
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tensors",), {}),
        (("tensors", "K"), None),
        (("tensors", "K"), KeyError),
        (("widths",), []),
        (("widths",), [3]),
        (("widths",), [3, 4, 5, 6, 7, 8]),
        (("reason",), None),
        (("made", "specification"), {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("options", [(), ("--json",), ("--plot", "a.svg")], ids=str)
def test_what_does_not_fit_together_is_no_traceback(record, tmp_path, monkeypatch, path, value, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edited.json").write_text(json.dumps(edited(record, path, value)))
    shown = CliRunner().invoke(app, ["show", "edited.json", *options])
    assert shown.exit_code in (0, 2), shown.exception
    if shown.exit_code:
        assert shown.stderr.startswith("neft: ") and shown.stderr.count("\n") == 1 and shown.stderr.endswith(".\n")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_files_that_were_cut_off_are_refused(tmp_path, share, suffix):
    target = tmp_path / f"cut.{suffix}"
    width.statistics(MLP((3, 4, 1), "relu"), [1.0, 0.5, 0.2]).save(target)
    whole = target.read_bytes()
    target.write_bytes(whole[: int(share * len(whole))])
    with one_sentence("is damaged or not a result of neft"):
        neft.load(target)


def test_archives_that_were_edited_are_refused(tmp_path):
    stats = width.statistics(MLP((3, 4, 1), "relu"), [1.0, 0.5, 0.2])
    stats.save(tmp_path / "whole.npz")
    with np.load(tmp_path / "whole.npz") as archive:
        parts = dict(archive)
    first = next(name for name in parts if name.startswith("array_"))
    for change, says in (
        ({first: None}, "is missing"),
        ({first: np.array(["a", "b"])}, "array of numbers"),
        ({first: np.ones((2, 2, 2, 2, 2))[:1]}, "layers"),
        ({"neft": np.array("[]")}, "no format number"),
        ({"neft": np.array(3)}, "no format number"),
    ):
        kept = {name: value for name, value in (parts | change).items() if value is not None}
        np.savez(tmp_path / "edited.npz", **kept)
        with one_sentence(says):
            neft.load(tmp_path / "edited.npz")
