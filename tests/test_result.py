import copy
import dataclasses
import json
import pickle
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree

import hypothesis.extra.numpy as hnp
import jax
import numpy as np
import pytest
from helpers import one_sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int

import neft
from neft import _result, _show
from neft._result import Made, Result, load, result


@result
class Part(Result):
    x: Float[np.ndarray, "..."]
    n: int = 3


@result
class Whole(Result):
    name: str
    flag: bool
    K: float
    error: float | None
    grid: Float[np.ndarray, "..."]
    counts: Int[np.ndarray, "..."]
    maybe: Float[np.ndarray, "..."] | None
    kinks: tuple[tuple[float, int], ...]
    table: dict[str, float]
    part: Part | None
    parts: tuple[Part, ...]
    by_name: dict[str, Part]
    made: Made


@result
class Loose(Result):
    value: Any


@result
class Nested(Result):
    part: Part


@result
class Bare(Result):
    x: np.ndarray


MADE = Made.by("test", specification={"widths": (3, 4), "C_W": np.float64(2)}, key=7, tolerances={"rtol": 1e-9})
number = st.floats(allow_nan=False)
floats = hnp.arrays(st.sampled_from([np.float32, np.float64]), hnp.array_shapes(min_dims=0, max_side=4))
integers = hnp.arrays(st.sampled_from([np.int64, np.uint8]), hnp.array_shapes(min_dims=0, max_dims=2, max_side=4))
parts = st.builds(Part, x=floats, n=st.integers())
wholes = st.builds(
    Whole,
    name=st.text(),
    flag=st.booleans(),
    K=number,
    error=st.none() | number,
    grid=floats,
    counts=integers,
    maybe=st.none() | floats,
    kinks=st.lists(st.tuples(number, st.integers())).map(tuple),
    table=st.dictionaries(st.text(), number),
    part=st.none() | parts,
    parts=st.lists(parts, max_size=2).map(tuple),
    by_name=st.dictionaries(st.text(), parts, max_size=2),
    made=st.just(MADE),
)
HERE = {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow], "deadline": None}
SUFFIXES = pytest.mark.parametrize("suffix", ["json", "npz"])
PART = Part(x=np.array([1.0, np.inf, np.nan, 2 / 3]))


def back(value, path):
    value.save(path)
    return load(path)


def written(path, **fields):
    """A JSON file, or the header of an archive, that neft did not write."""
    text = json.dumps({"neft": 1, **fields})
    if path.suffix == ".json":
        path.write_text(text)
    else:
        np.savez(path, neft=np.array(text))
    return path


@SUFFIXES
@settings(max_examples=40, **HERE)
@given(value=wholes)
def test_a_file_gives_the_result_back(tmp_path, suffix, value):
    other = back(value, tmp_path / f"whole.{suffix}")
    assert other == value
    assert all(type(getattr(other, f.name)) is type(getattr(value, f.name)) for f in dataclasses.fields(Whole))


@given(value=wholes)
@settings(max_examples=20, **HERE)
def test_a_dictionary_gives_the_result_back(value):
    record = json.loads(json.dumps(value.to_dict(), allow_nan=False))
    assert Result.from_dict(record) == value


def test_a_dictionary_gives_the_result_back_twice():
    value = Nested(part=PART)
    record = value.to_dict()
    assert Nested.from_dict(record) == value
    assert Nested.from_dict(record) == value


@SUFFIXES
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (0, 3, 2)])
def test_an_empty_array_keeps_its_shape(tmp_path, suffix, shape):
    assert back(Part(x=np.zeros(shape)), tmp_path / f"part.{suffix}").x.shape == shape


@SUFFIXES
def test_infinities_and_nan_survive(tmp_path, suffix):
    x = np.array([[np.inf, -np.inf], [np.nan, -0.0]])
    np.testing.assert_array_equal(back(Part(x=x), tmp_path / f"part.{suffix}").x, x)


@SUFFIXES
def test_infinities_survive_without_a_dtype_in_the_annotation(tmp_path, suffix):
    other = back(Bare(x=np.array([1.0, np.inf])), tmp_path / f"bare.{suffix}").x
    assert other.dtype == np.float64
    np.testing.assert_array_equal(other, [1.0, np.inf])


@SUFFIXES
def test_a_result_with_a_number_that_is_nan_comes_back_equal(tmp_path, suffix):
    value = dataclasses.replace(MADE, tolerances={"measured": float("nan")})
    assert back(value, tmp_path / f"made.{suffix}") == value


@SUFFIXES
def test_a_specification_that_is_a_result_comes_back_equal(tmp_path, suffix):
    made = Made.by("test", specification={"of": PART})
    assert back(made, tmp_path / f"made.{suffix}") == made


def test_an_archive_keeps_the_dtype(tmp_path):
    assert back(Part(x=np.ones(3, np.float32)), tmp_path / "part.npz").x.dtype == np.float32


def test_the_json_file_is_strict_json(tmp_path):
    PART.save(tmp_path / "part.json")
    record = json.loads((tmp_path / "part.json").read_text(), parse_constant=pytest.fail)
    assert record == {"neft": 1, "type": "Part", "x": [1.0, "inf", "nan", 2 / 3], "n": 3}


def test_jax_arrays_are_saved_as_numbers(tmp_path):
    np.testing.assert_array_equal(back(Part(x=jax.numpy.arange(3.0)), tmp_path / "part.npz").x, [0, 1, 2])


@pytest.mark.slow
def test_a_result_of_another_process_is_known(tmp_path):
    card = neft.describe.network(neft.MLP(widths=(3, 4, 2)))
    card.save(tmp_path / "card.npz")
    program = "import sys, neft; value = neft.load(sys.argv[1]); value.save(sys.argv[2])"
    subprocess.run([sys.executable, "-c", program, tmp_path / "card.npz", tmp_path / "card.json"], check=True)
    assert load(tmp_path / "card.json") == card


def test_a_result_is_frozen_and_not_hashable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PART.n = 4
    with pytest.raises(TypeError, match="unhashable"):
        hash(PART)


def test_fields_are_given_by_name():
    with pytest.raises(TypeError, match="positional"):
        Part(np.ones(2))


def test_equality_is_that_of_the_values():
    assert Part(x=PART.x.copy()) == PART
    assert Part(x=np.ones(2)) == Part(x=np.ones(2, np.float32))
    others = [Part(x=PART.x, n=4), Part(x=PART.x[:3]), Part(x=PART.x[None]), Part(x=-PART.x), Loose(value=PART.x), 3]
    assert all(other != PART for other in others)


def test_text_shows_the_numbers_and_not_what_made_them():
    assert repr(Part(x=np.array([1.0, 0.25]))) == "Part(x=[1, 0.25], n=3)"
    assert repr(Loose(value=1 / 3)) == "Loose(value=0.333333)"
    assert repr(Loose(value={"K": 2 / 3})) == "Loose(value={K: 0.666667})"
    assert str(Loose(value=2.0)).splitlines() == ["Loose", "  value  2"]
    card = neft.describe.network(neft.MLP(widths=(3, 4, 2)))
    assert "made" not in repr(card) and "widths" in str(card)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.arange(24) / 3, f"[{', '.join(f'{k / 3:.5g}' for k in range(24))}]"),
        (np.arange(25.0), "[0, 1, 2, …, 22, 23, 24] (25 numbers from 0 to 24)"),
        (np.arange(900.0).reshape(30, 30), "[0, 1, 2, …, 897, 898, 899] (30 × 30 numbers from 0 to 899)"),
        (np.array([[0.5], [1e-9]]), "[[0.5], [1e-09]]"),
        (np.array([np.inf, -np.inf, np.nan]), "[inf, -inf, nan]"),
        (np.array([1.0, np.nan, np.inf] * 9), "[1, nan, inf, …, 1, nan, inf] (27 numbers from 1 to 1, 18 not finite)"),
        (np.full(30, np.nan), "[nan, nan, nan, …, nan, nan, nan] (30 numbers, 30 not finite)"),
        (np.array([123456, -7]), "[123456, -7]"),
        (np.array([True, False]), "[True, False]"),
        (np.zeros(30, bool), "[False, False, False, …, False, False, False] (30 entries)"),
        (np.array(["<a>", "b"]), "[<a>, b]"),
        (np.array([1 + 2j]), "[1+2j]"),
        (np.float32(0.1), "0.1"),
        (np.array(2.5), "2.5"),
        (np.zeros((0, 3)), "[] (shape (0, 3))"),
        (jax.numpy.arange(3.0), "[0, 1, 2]"),
        ((np.zeros(3), 0.1234567), "([0, 0, 0], 0.123457)"),
        ((3,), "(3,)"),
        (tuple(range(100)), f"({', '.join(map(str, range(24)))}, … (100 in all))"),
        ("σ", "'σ'"),
        (None, "None"),
    ],
)
def test_every_value_has_a_short_text_with_its_numbers(value, text):
    assert _show.brief(value) == text


def test_the_text_of_large_results_is_bounded():
    large = np.random.default_rng(0).normal(size=(200, 300))
    value = Loose(value={str(k): (large, [large] * 50) for k in range(100)})
    assert len(repr(Part(x=large))) < 200 and "\n" not in repr(Part(x=large))
    assert len(repr(value)) < 100_000 and len(value._repr_html_()) < 100_000
    assert len(Part(x=large)._repr_html_()) < 500


@pytest.mark.slow
def test_no_text_of_a_result_is_broken_or_without_numbers():
    net = neft.MLP(widths=(3, *(8,) * 29, 1), activation="relu", C_W=2.0)
    stats = neft.width.statistics(net, np.ones(3))
    assert len(str(stats).splitlines()) == 1 + len(list(stats._shown()))
    assert "V           [0, 20, 40, …, 540, 560, 580] (30 numbers from 0 to 580)" in str(stats)


@result
class Layers(Result):
    K: Float[np.ndarray, " layers"]
    tensors: dict[str, Float[np.ndarray, "layers *samples"] | None]
    samples: Float[np.ndarray, " samples"]
    output: Float[np.ndarray, "*times tests outputs"]
    parts: tuple[Part, ...]
    points: tuple[Loose, ...]
    note: str
    made: Made


def layers(**fields):
    given = {
        "K": np.array([2.0, 1.5]),
        "tensors": {"V": np.array([0.0, 1 / 3]), "pair": np.arange(8.0).reshape(2, 2, 2), "R": None},
        "samples": np.array([5.0, 6.0]),
        "output": np.array([[0.25], [np.nan]]),
        "parts": (PART,),
        "points": (Loose(value=1.0), Loose(value="<b>")),
        "note": "<script>alert(1)</script> & 'more'",
        "made": MADE,
    }
    return Layers(**(given | fields))


def cells(page):
    """The rows of all tables of some HTML, which must be well-formed, as lists of texts."""
    rows = ElementTree.fromstring(page).iter("tr")
    return [["".join(cell.itertext()) for cell in row if cell.tag in ("th", "td")] for row in rows]


def test_a_notebook_shows_a_table_with_the_layers_side_by_side():
    rows = cells(layers()._repr_html_())
    assert ["layer", "K", "V"] in rows and ["1", "2", "0"] in rows and ["2", "1.5", "0.33333"] in rows
    assert ["samples", "[5, 6]"] in rows and ["output", "[[0.25], [nan]]"] in rows
    assert ["", "value"] in rows and ["0", "1"] in rows and ["1", "<b>"] in rows
    assert not [row for row in rows if row[0] == "made"]


def test_what_a_notebook_shows_is_escaped():
    page = layers(tensors={"<i>": np.zeros(2)})._repr_html_()
    assert "<script" not in page and "<b>" not in page and "<i>" not in page
    assert ["note", "<script>alert(1)</script> & 'more'"] in cells(page)
    assert ["value", "<&>"] in cells(Loose(value="<&>")._repr_html_())


def test_a_notebook_shows_what_does_not_exist_and_results_within_results():
    stats = neft.width.statistics(neft.MLP(widths=(3, 8, 1), activation="relu", C_W=2.0), np.ones(3))
    rows = cells(stats._repr_html_())
    assert ["R", "does not exist"] in rows and rows[-2][:2] == ["1", "2"]
    (outer, *inner) = cells(Nested(part=PART)._repr_html_())
    assert outer[0] == "part" and ["x", "[1, inf, nan, 0.66667]"] in inner


@settings(max_examples=40, **HERE)
@given(value=wholes)
def test_every_result_can_be_shown(value):
    text = "".join(c for c in value._repr_html_() if c >= " ")  # control characters are HTML, but not XML
    assert cells(text) and value.name is not None and repr(value).startswith("Whole(name=")


def test_long_arrays_stand_in_one_line_of_a_notebook():
    rows = cells(layers(K=np.arange(50.0), tensors={"V": np.arange(50.0)})._repr_html_())
    assert ["K", "[0, 1, 2, …, 47, 48, 49] (50 numbers from 0 to 49)"] in rows


class FakePandas:
    """What `to_pandas` uses of pandas, to look at without it."""

    def DataFrame(self, columns, index=None):
        return columns, index

    def Index(self, values, name):
        return name, list(values)


def test_a_result_goes_to_pandas_by_its_layers(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", FakePandas())
    columns, index = layers().to_pandas()
    assert index == ("layer", [1, 2])
    assert list(columns) == ["K", "V", "pair[0, 0]", "pair[0, 1]", "pair[1, 0]", "pair[1, 1]"]
    np.testing.assert_array_equal(columns["pair[1, 0]"], [2, 6])
    assert layers().to_pandas("tests")[1] == ("tests", [0, 1])
    assert layers().to_pandas("samples")[0]["samples"].tolist() == [5, 6]
    assert layers().to_pandas("points")[0] == {"value": [1.0, "<b>"]}
    assert "pair[0, 0]" not in layers(tensors={"pair": np.zeros((2, 11, 11))}).to_pandas()[0]
    with one_sentence("rows is 'layers', but must be one of layer, samples, tests, points."):
        layers().to_pandas("layers")


def test_names_in_two_dictionaries_keep_them_apart(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", FakePandas())

    @result
    class Two(Result):
        theory: dict[str, Float[np.ndarray, " layers"]]
        simulation: dict[str, Float[np.ndarray, " layers"]]

    found = Two(theory={"K": np.zeros(2)}, simulation={"K": np.ones(2), "V": np.ones(2)})
    assert list(found.to_pandas()[0]) == ["theory K", "simulation K", "V"]


def test_a_result_without_arrays_is_one_row(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", FakePandas())
    assert Loose(value=3).to_pandas() == ([{"value": 3}], None)
    with one_sentence("rows is 'layer', but must be one of none: it has no arrays."):
        Loose(value=3).to_pandas("layer")


def test_without_pandas_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^to_pandas needs pandas, which is not installed: pip install pandas\.$"):
        PART.to_pandas()


def test_pandas_itself_makes_the_frame():
    pytest.importorskip("pandas")
    frame = layers().to_pandas()
    assert frame.index.name == "layer" and frame.loc[2, "V"] == 1 / 3 and len(frame.columns) == 6
    assert Part(x=np.array([1.0, np.nan])).to_pandas().x.isna().tolist() == [False, True]


@pytest.mark.slow
def test_estimates_are_counted_in_layers_and_can_be_copied(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", FakePandas())
    net = neft.MLP(widths=(3, 4, 1), activation="tanh")
    found = neft.ensemble.estimate(net, np.ones(3), draws=8, key=jax.random.key(0), only=("K",))
    columns, index = found.to_pandas()
    assert index == ("layer", [1, 2]) and list(columns) == ["K mean", "K stderr"]
    assert copy.deepcopy(found) == found


@pytest.mark.parametrize(("suffix", "module", "writer"), [("json", json, "dump"), ("npz", np, "savez_compressed")])
def test_a_result_is_saved_whole_or_not_at_all(tmp_path, monkeypatch, suffix, module, writer):
    def fails(*args, **_):
        file = next(a for a in args if hasattr(a, "write"))
        file.write("half" if suffix == "json" else b"half")
        raise RuntimeError

    path = tmp_path / f"part.{suffix}"
    PART.save(path)
    monkeypatch.setattr(module, writer, fails)
    with pytest.raises(RuntimeError):
        Part(x=np.zeros(3)).save(path)
    assert load(path) == PART and list(tmp_path.iterdir()) == [path]


@SUFFIXES
def test_what_a_result_cannot_hold_is_refused_and_leaves_the_old_file(tmp_path, suffix):
    path = tmp_path / f"loose.{suffix}"
    Loose(value=1).save(path)
    with pytest.raises(TypeError, match="a result cannot hold a object"):
        Loose(value=[1, object()]).save(path)
    assert load(path) == Loose(value=1) and list(tmp_path.iterdir()) == [path]


def test_other_suffixes_are_refused(tmp_path):
    for call in (PART.save, load):
        with one_sentence(f"path is {str(tmp_path / 'part.pkl')!r}, but must end in .json or .npz."):
            call(tmp_path / "part.pkl")


@SUFFIXES
def test_a_file_that_is_not_there_is_one_sentence(tmp_path, suffix):
    path = tmp_path / f"part.{suffix}"
    with one_sentence(f"cannot read {str(path)!r}: No such file or directory."):
        load(path)


@SUFFIXES
def test_an_unknown_type_is_refused_with_the_nearest_name(tmp_path, suffix):
    with one_sentence("result type is 'Wole'", "does not know", "did you mean 'Whole'?"):
        load(written(tmp_path / f"part.{suffix}", type="Wole"))


@result
class Renamed(Result, formerly="OldName"):
    learning_rate: float

    @classmethod
    def _from_older(cls, fields):
        return {"learning_rate" if name == "rate" else name: value for name, value in fields.items()}


@SUFFIXES
def test_types_and_fields_of_an_older_name_are_still_read(tmp_path, suffix):
    path, value = tmp_path / f"renamed.{suffix}", Renamed(learning_rate=0.5)
    for record in ({"type": "OldName", "rate": 0.5}, {"type": "OldName", "learning_rate": 0.5}):
        assert load(written(path, **record)) == value
    value.save(path)
    assert load(path) == value and value.to_dict() == {"type": "Renamed", "learning_rate": 0.5}


@SUFFIXES
def test_a_newer_format_is_refused(tmp_path, suffix):
    path = written(tmp_path / f"part.{suffix}", **(PART.to_dict() | {"neft": 2}))
    with one_sentence(str(path), "written by a newer neft", neft.__version__):
        load(path)


@SUFFIXES
def test_missing_and_odd_fields_are_named(tmp_path, suffix):
    with one_sentence("a saved Part", "n, x, y"):
        load(written(tmp_path / f"part.{suffix}", type="Part", y=1))


def test_a_result_of_another_type_is_refused():
    with one_sentence("result type is 'Made', but must be 'Part'."):
        Part.from_dict(MADE.to_dict())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "{}",
        "[" * 100_000,
        '{"neft": "1", "type": "Part", "x": [], "n": 3}',
        '{"neft": null, "type": "Part", "x": [], "n": 3}',
        '{"neft": 1, "type": "Part", "x": ["a"], "n": 3}',
        '{"neft": 1, "type": "Part", "x": [[1], 2], "n": 3}',
        '{"neft": 1, "type": "Part", "x": [1, 2], "n": {"type": []}}',
        '{"neft": 1, "type": "Part", "x": {"\\u0000arrays": "array_0"}, "n": 3}',
        '{"neft": 1, "type": "Part", "x": {"\\u0000arrays": []}, "n": 3}',
        f'{{"neft": 1, "type": "Part", "x": 1{"0" * 400}, "n": 3}}',
    ],
    ids=lambda text: text[:60] or "empty",
)
def test_a_damaged_json_file_is_one_sentence_that_names_it(tmp_path, text):
    path = tmp_path / "part.json"
    path.write_text(text)
    with one_sentence(str(path)):
        load(path)


def test_a_file_that_is_not_text_is_one_sentence(tmp_path):
    (tmp_path / "part.json").write_bytes(b"\xff\xfe\x00")
    with one_sentence("part.json", "not a result of neft"):
        load(tmp_path / "part.json")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A result, and the bytes of its file."""
    noise = np.random.default_rng(0).normal(size=50)
    value = Whole(
        name="σ",
        flag=True,
        K=1.5,
        error=None,
        grid=noise,
        counts=np.arange(6).reshape(2, 3),
        maybe=None,
        kinks=((0.0, 1),),
        table={"a": 1.0},
        part=PART,
        parts=(PART, PART),
        by_name={"part": PART},
        made=MADE,
    )
    path = tmp_path_factory.mktemp("archive") / "whole.npz"
    value.save(path)
    return value, path.read_bytes()


def equal_or_refused(path, value):
    try:
        other = load(path)
    except ValueError:
        return True
    return other == value


@pytest.mark.slow
@settings(max_examples=300, **HERE)
@given(draw=st.data())
def test_a_damaged_archive_is_refused_or_harmless(tmp_path, archive, draw):
    value, content = archive
    damaged = bytearray(content)
    for _ in range(draw.draw(st.integers(1, 3), "flips")):
        damaged[draw.draw(st.integers(0, len(content) - 1), "where")] ^= draw.draw(st.integers(1, 255), "by")
    (tmp_path / "whole.npz").write_bytes(damaged)
    assert equal_or_refused(tmp_path / "whole.npz", value)


@settings(max_examples=50, **HERE)
@given(draw=st.data())
def test_an_archive_that_was_cut_is_refused(tmp_path, archive, draw):
    _, content = archive
    (tmp_path / "whole.npz").write_bytes(content[: draw.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(ValueError, match=r"whole\.npz"):
        load(tmp_path / "whole.npz")


def test_an_archive_without_one_of_its_arrays_is_one_sentence(tmp_path):
    with one_sentence("part.npz"):
        load(written(tmp_path / "part.npz", type="Part", x={"\0arrays": "array_0"}, n=3))


def test_an_archive_of_something_else_is_one_sentence(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    with one_sentence("other.npz", "not a result of neft"):
        load(tmp_path / "other.npz")


class Bomb:
    """Something whose unpickling is noticed."""

    def __reduce__(self):
        return pytest.fail, ("a file was unpickled",)


def test_pickled_objects_in_an_archive_are_refused(tmp_path):
    path = tmp_path / "part.npz"
    np.savez(path, neft=np.array(json.dumps({"neft": 1, **PART.to_dict()})), array_0=np.array([Bomb()]))
    with one_sentence("part.npz", "Object arrays cannot be loaded"):
        load(path)


def test_a_pickle_in_place_of_an_archive_is_refused_without_advice_to_trust_it(tmp_path):
    (tmp_path / "part.npz").write_bytes(pickle.dumps(Bomb()))
    with one_sentence("part.npz", "not a result of neft"):
        load(tmp_path / "part.npz")


def test_no_file_is_left_open(tmp_path, archive, monkeypatch):
    left = []
    monkeypatch.setattr(sys, "unraisablehook", left.append)
    value, content = archive
    for damaged in (content, content[:-1], content[: len(content) // 2], b"PK\3\4", b"", b"x" * 100):
        for suffix in ("npz", "json"):
            (tmp_path / f"whole.{suffix}").write_bytes(damaged)
            assert equal_or_refused(tmp_path / f"whole.{suffix}", value)
    assert left == []


def test_what_made_a_result_is_recorded():
    assert (MADE.function, MADE.tolerances) == ("test", {"rtol": 1e-9})
    assert MADE.specification == {"widths": [3, 4], "C_W": 2.0}
    assert MADE.versions["neft"] == neft.__version__ and MADE.versions["jax"] == jax.__version__
    assert set(MADE.versions) == {"neft", "python", "jax", "numpy", "scipy"}


def test_a_specification_is_plain_data():
    made = Made.by("test", specification={"net": neft.MLP(widths=(3, 2)), "K": np.inf, "x": np.ones(2)})
    assert made.specification["net"]["widths"] == [3, 2]
    assert made.specification["K"] == "inf" and made.specification["x"] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("key", "data"),
    [
        (None, None),
        (5, (5,)),
        (np.int64(5), (5,)),
        (jax.random.key(5), (0, 5)),
        (jax.random.PRNGKey(5), (0, 5)),
    ],
    ids=["none", "seed", "numpy seed", "key", "old key"],
)
def test_the_key_is_recorded_as_integers(key, data):
    made = Made.by("test", key=key)
    assert made.key == data and made.versions == dict(_result._versions())
