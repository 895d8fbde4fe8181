from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import neft
from neft._named import activation_names, from_text
from neft.explore import _app, _flow, _phases, _work
from neft.explore._settings import Refused, Settings


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"depth": 129}, "depth is 129, but must be at most 128."),
        ({"depth": 2.5}, "depth is 2.5, but must be a whole number."),
        ({"depth": 1}, "depth is 1, but must be at least 2."),
        (
            {"depth": 2, "residual": "one"},
            "depth is 2, but a network with skips has a layer before them and one after: 3.",
        ),
        ({"width": 5000}, "width is 5000, but must be at most 4096."),
        ({"draws": 10**6}, "draws is 1000000, but must be at most 20000."),
        ({"C_W": -1}, "C_W is -1, but must be at least 0."),
        ({"C_b": float("nan")}, "C_b is nan, but must be finite."),
        ({"C_W": 1e9}, "C_W is 1e+09, but must be at most 100."),
        ({"lambda_W": "1"}, "lambda_W is '1', but must be a real number."),
        ({"skip": 11}, "skip is 11, but must be at most 10."),
        ({"norm": "batch"}, "norm is 'batch', but must be one of none, rms, layer."),
        ({"seed": -1}, "seed is -1, but must be at least 0."),
        ({"points": [[0, 0]] * 13}, "points are 13, but must be 1 to 12."),
        ({"points": [[0, 0], [0, 1]]}, "points hold x = 0 twice, but two targets at one place cannot both be learned."),
        ({"points": [[9, 0]]}, "points reach 9, but must lie within ±3."),
        ({"points": [[0, 1, 2]]}, "points has shape (1, 3), but must have shape (1, 2)."),
        ({"file": "x"}, "'file' is no field."),
        ({"activation": 3}, "activation is 3, but must be a name or an expression of z."),
        ({"until": -1}, "until is -1, but must be at least 0."),
        (
            {"activation": "sin(1e9*z)"},
            "activation is 'sin(1e9*z)', but the number 1e9 in it must be at most 1000.",
        ),
        (
            {"activation": "elu(-1e300)"},
            "activation is 'elu(-1e300)', but the number 1e300 in it must be at most 1000.",
        ),
        (
            {"activation": "tanh(500*z)"},
            "activation is 'tanh(500*z)', but it changes within 0.002 of z, and must take at least 0.03 to be "
            "resolved.",
        ),
        (
            {"activation": "q" * 5000},
            f"activation is '{'q' * 56}..., but must be one of {', '.join(activation_names())}.",
        ),
        (
            {"activation": "z" + "+z" * 200},
            "activation is an expression of 401 characters, but must be one of at most 300.",
        ),
    ],
)
def test_a_bad_value_gets_a_sentence_with_the_name_of_its_field(given, says):
    with pytest.raises(Refused) as refused:
        Settings.of(given)
    assert list(refused.value.fields.values()) == [says]
    assert set(refused.value.fields) <= set(given)


@pytest.mark.parametrize("text", ["(" * 40 + "z" + ")" * 40, "__import__('os')+z", "z.real", "z;1", "exec(z)", "tanhh"])
def test_an_expression_is_parsed_and_never_evaluated(text):
    with pytest.raises(Refused) as refused:
        Settings.of({"activation": text})
    assert refused.value.fields["activation"].startswith("activation is ")


@pytest.mark.parametrize(
    "text",
    [
        "z+0.00001*sin(300*z)",
        *(pytest.param(text, marks=pytest.mark.slow) for text in ("sin(1000*1000*z)", "sin(z^3)")),
    ],
)
def test_an_expression_that_changes_too_often_is_refused(text):
    says = r"changes sign \d{3,} times or more in .z. ≤ 10, where at most 200 changes can be resolved"
    with pytest.raises(Refused, match=says) as refused:
        Settings.of({"activation": text})
    assert set(refused.value.fields) == {"activation"}


@pytest.mark.parametrize(
    "text", ["sin(30*z)", "tanh(20*z)", "z*sin(z^2)", "(exp(z)-exp(-z))/(exp(z)+exp(-z))", "log1p(z^2)"]
)
def test_an_expression_that_changes_less_is_taken(text):
    assert Settings.of({"activation": text}).activation == text


def test_several_bad_values_get_a_sentence_each():
    with pytest.raises(Refused) as refused:
        Settings.of({"depth": 0, "width": 0})
    assert set(refused.value.fields) == {"depth", "width"}


def test_a_simulation_that_takes_too_long_is_refused():
    with pytest.raises(Refused, match=r"draws is 20000, whose .* must be at most \d+ at this depth and width"):
        _work.refuse_too_large(Settings.of({"width": 512, "depth": 64, "draws": 20000}))
    # Where not even the fewest networks can be drawn, their number is not what is wrong.
    with pytest.raises(Refused, match="width is 4096, but must be at most 1992 for networks of depth 64 to be drawn"):
        _work.refuse_too_large(Settings.of({"width": 4096, "depth": 64, "draws": 16}))
    # How many are drawn is chosen beside another tab than that of training.
    with pytest.raises(Refused, match="width is 1024, but must be at most 534 for networks of depth 8 to be trained"):
        _work.trained(Settings.of({"width": 1024}), lambda part, record: None)


def test_the_network_is_that_of_the_command_line():
    net = Settings(activation="relu", depth=4, width=8, C_W=2.0).network()
    assert net == neft.MLP((8, 8, 8, 8, 1), "relu", C_W=2.0)


def test_a_padded_perceptron_has_the_tensors_of_the_network():
    settings = Settings(activation="relu", depth=5, width=16, C_b=0.1, C_W=1.7, lambda_W=0.5)
    _same(_flow.statistics(settings), neft.width.statistics(settings.network(), np.ones(16)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("residual", "norm"), [("one", "none"), ("two", "none"), ("two", "layer"), ("none", "rms"), ("one", "rms")]
)
def test_padded_blocks_have_the_tensors_of_the_network(residual, norm):
    settings = Settings(depth=5, width=16, C_b=0.1, C_W=0.7, lambda_W=0.5, residual=residual, norm=norm, skip=0.9)
    _same(_flow.statistics(settings), neft.width.statistics(settings.network(), np.ones(16)))


def _same(found, known):
    assert found.widths == known.widths and set(found.tensors) == set(known.tensors)
    for name, value in known.tensors.items():
        if value is None:
            assert found.tensors[name] is None
        else:
            np.testing.assert_allclose(found.tensors[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_tensor_that_does_not_exist_is_named():
    found = _flow.flow(Settings(activation="relu", C_W=2.0))
    assert set(found["absent"]) == {"R", "S", "T", "U"} and "jumps at 0" in found["absent"]["R"]
    assert len(found["tensors"]["V"]) == 8


def test_programs_are_forgotten_before_memory_maps_run_out(monkeypatch, tmp_path):
    many, cleared = tmp_path / "maps", []
    many.write_text("line\n" * 31_000)
    monkeypatch.setattr(_flow, "_MAPS", many)
    monkeypatch.setattr(_flow.jax, "clear_caches", lambda: cleared.append(True))
    before = _flow.flow(Settings(activation="relu", C_W=2.0))
    assert cleared == [True]
    many.write_text("line\n" * 29_000)
    assert _flow.flow(Settings(activation="relu", C_W=2.0)) == before and cleared == [True]


@pytest.mark.slow
@pytest.mark.skipif(not _flow._MAPS.exists(), reason="only Linux tells how many memory maps are held")
def test_a_long_lecture_holds_a_bounded_number_of_programs(monkeypatch):
    def held():
        return len(_flow._MAPS.read_bytes().splitlines())

    _flow.flow(Settings())
    most = held() + 60  # a few programs, each of which holds some
    monkeypatch.setattr(_flow, "_MOST_MAPS", most)
    seen = []
    for name in ("erf", "sin", "softplus", "sigmoid", "elu"):
        _flow.flow(Settings(activation=name))
        seen.append(held())
    assert max(seen) < most + 400 and min(seen) <= most


def test_a_diagram_that_another_process_found_is_the_one_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(_phases, "_AHEAD", {})
    monkeypatch.setattr(_phases, "diagram", lambda *_, **__: pytest.fail("it was computed again"))
    said = [{"progress": 0.5, "found": {"activation": "elu", "phases": {"fine": False}}}, {"result": {}}]

    class Beside:
        beside = staticmethod(lambda *_: iter(said))

    monkeypatch.setattr(_app, "at_once", lambda *_: {})
    _app.warm(Beside())
    assert _phases.phases(Settings.of({"activation": "elu"})) == {"fine": False}


def test_who_asks_for_the_same_new_function_at_once_reads_it_once():
    before = from_text.cache_info().misses
    with ThreadPoolExecutor(3) as pool:
        names = list(pool.map(Settings.of, [{"activation": "tanh(1.25*z)"}] * 3))
    assert {one.activation for one in names} == {"tanh(1.25*z)"} and from_text.cache_info().misses == before + 1
