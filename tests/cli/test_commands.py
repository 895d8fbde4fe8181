import json

import pytest

import neft as library
from neft import claims
from neft.claims import Measurement
from neft.claims._registry import Registry


def test_activation_prints_what_is_known(neft):
    text = neft("activation", "leaky_relu(0.1)").stdout
    assert "σ' jumps by 0.9 at 0" in text
    assert "scale invariant      yes" in text
    assert "Of the right-hand side" in text


def test_network_prints_each_layer_and_the_total(neft):
    text = neft("network", "--widths", "784,512,10", "--C-W", "1,2").stdout
    rows = [line.split() for line in text.splitlines()]
    assert rows[2][:4] == ["1", "784", "512", "401920"]
    assert "2 layers, 407,050 parameters." in text


@pytest.mark.parametrize(
    ("options", "widths"),
    [
        ("--depth 1 --width 5", [5, 1]),
        ("--depth 3 --width 5", [5, 5, 5, 1]),
        ("--depth 3 --width 5 --inputs 2 --outputs 4", [2, 5, 5, 4]),
        ("--widths 7,6,5", [7, 6, 5]),
        ("", [128, 128, 128, 1]),
    ],
)
def test_depth_counts_layers_of_weights(neft, options, widths):
    assert json.loads(neft("network", *options.split(), "--json").stdout)["widths"] == widths


def test_hyperparameters_may_differ_by_layer(neft):
    record = json.loads(neft("network", "--depth", "2", "--width", "4", "--C-b", "0.5,0.25", "--json").stdout)
    assert record["var_b"] == [0.5, 0.25]


def test_draws_depend_on_the_seed_only(neft):
    line = ("network", "--width", "8", "--draws", "50", "--json")
    first, again, other = (neft(*line, "--seed", seed).stdout for seed in (1, 1, 2))
    assert first == again != other


def test_data_prints_counts_and_checksum(neft):
    text = neft("data", "fashion-mnist", "--split", "test", "--subset").stdout
    assert "1,000" in text and "784 (28 × 28)" in text and "0.1000" in text


def test_data_without_a_name_lists_what_there_is(neft):
    assert "bundled subset" in neft("data").stdout


def test_data_as_json_is_a_card_and_no_pixels(neft, tmp_path):
    printed = neft("data", "fashion-mnist", "--subset", "--json").stdout
    assert len(printed) < 2000 and json.loads(printed)["examples"] is None
    (tmp_path / "card.json").write_text(printed)
    result = neft("show", tmp_path / "card.json", "--plot", tmp_path / "card.svg")
    assert result.exit_code == 2 and "without examples" in result.stderr


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_show_prints_a_saved_result_again(neft, tmp_path, suffix):
    file = tmp_path / f"tanh.{suffix}"
    printed = neft("activation", "tanh", "--out", file).stdout
    assert neft("show", file).stdout == printed


def test_show_draws_the_picture_from_the_file(neft, tmp_path):
    neft("activation", "gelu", "--out", tmp_path / "gelu.json", "--plot", tmp_path / "first.svg")
    neft("show", tmp_path / "gelu.json", "--plot", tmp_path / "again.svg")
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_printed_json_is_a_file_that_show_reads(neft, tmp_path):
    (tmp_path / "a.json").write_text(neft("activation", "tanh", "--json").stdout)
    assert neft("show", tmp_path / "a.json").stdout == neft("activation", "tanh").stdout


def test_a_result_without_a_table_prints_itself(neft, tmp_path):
    made = library.Made.by("test")
    made.save(tmp_path / "made.json")
    assert neft("show", tmp_path / "made.json").stdout.startswith("Made\n")


def test_a_result_without_a_picture_says_so(neft, tmp_path):
    result = neft("data", "--plot", tmp_path / "a.png")
    assert (result.exit_code, result.stderr) == (2, "neft: a Available has no picture.\n")


def test_quiet_prints_nothing(neft, tmp_path):
    result = neft("activation", "tanh", "--quiet", "--out", tmp_path / "a.json")
    assert (result.exit_code, result.output) == (0, "")
    assert isinstance(library.load(tmp_path / "a.json"), library.describe.results.ActivationCard)


class TestClaims:
    @pytest.fixture
    def registry(self, monkeypatch, tmp_path):
        registry = Registry()
        monkeypatch.setattr(claims, "check", registry.check)
        monkeypatch.setattr(claims, "contradictions", lambda ledger: ())
        return registry

    def test_an_empty_ledger_says_so(self, neft, registry):
        result = neft("claims")
        assert result.exit_code == 0 and "The ledger is empty" in result.stdout

    def test_verdicts_are_printed(self, neft, registry):
        registry.claim(id="a-1", source="lecture", equation="(5)", statement="a = b")(
            lambda level: Measurement(verdict="refuted", summary="Off by a factor of two.")
        )
        result = neft("claims", "a-1")
        assert result.exit_code == 0
        assert "a-1" in result.stdout and "refuted" in result.stdout and "Off by a factor of two." in result.stdout

    def test_a_failed_test_is_exit_code_1(self, neft, registry):
        @registry.claim(id="a", source="lecture", equation="(5)", statement="a = b")
        def test(level):
            raise ArithmeticError("lost")

        result = neft("claims")
        assert result.exit_code == 1 and "ArithmeticError: lost" in result.stdout

    def test_a_contradiction_is_exit_code_1(self, neft, registry, monkeypatch):
        registry.claim(id="a", source="lecture", equation="(5)", statement="a = b")(
            lambda level: Measurement(verdict="refuted", summary="Differs.")
        )
        monkeypatch.setattr(claims, "contradictions", lambda ledger: ledger.outcomes)
        assert neft("claims").exit_code == 1

    def test_the_ledger_becomes_a_page_and_kept_tests_are_not_repeated(self, neft, registry, monkeypatch, tmp_path):
        registry.claim(id="a", source="lecture", equation="(5)", statement="a = b")(
            lambda level: Measurement(verdict="holds", summary=f"Agrees at level {level}.")
        )
        kept = registry.check(level="full").outcomes
        monkeypatch.setattr(claims, "ledger", registry.ledger)
        monkeypatch.setattr(claims, "full_outcomes", lambda: kept)
        page = tmp_path / "claims.html"
        assert neft("claims", "--out", page).stdout == f"{page}: 1 claims\n"
        assert "Agrees at level quick." in page.read_text() and "Agrees at level full." in page.read_text()
        assert neft("claims", "--kept", "--out", page, "--quiet").stdout == ""
        assert "Agrees at level quick." not in page.read_text()
        assert "Agrees at level full." in neft("claims", "--kept").stdout

    def test_keep_keeps_full_outcomes(self, neft, registry, monkeypatch):
        kept = []
        monkeypatch.setattr(claims, "save_full", kept.append)
        registry.claim(id="a", source="lecture", equation="(5)", statement="a = b")(
            lambda level: Measurement(verdict="holds", summary="Agrees.")
        )
        neft("claims", "--level", "full", "--keep")
        assert [outcome.level for outcome in kept] == ["full"]


@pytest.mark.parametrize("command", ["action", "data fashion-mnist", "fisher", "predict", "regress", "report", "train"])
@pytest.mark.parametrize("subset", [True, False])
def test_every_command_with_data_takes_the_bundled_subset(neft, monkeypatch, tmp_path, command, subset):
    from neft import data

    asked = []

    def load(source, *split, full=None, **options):
        asked.append((source, full))
        raise ValueError("noted.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(data, "load", load)
    result = neft(*command.split(), *["--subset"] * subset)
    assert (result.exit_code, result.stderr) == (2, "neft: noted.\n")
    assert asked == [("fashion-mnist", False if subset else None)]


def test_data_of_ones_own_has_no_subset(neft, tmp_path):
    import numpy as np

    np.savez(tmp_path / "a.npz", x_train=[1.0], y_train=[1.0], x_test=[2.0])
    result = neft("predict", tmp_path / "a.npz", "--subset")
    assert result.exit_code == 2 and "--subset goes with a named set" in result.stderr


@pytest.mark.slow
def test_check_takes_factors_and_the_networks_own_width(neft):
    line = ("check", "--widths", "3,8,2", "--draws", "4")
    assert "Drawn: 3 - 16 - 2." in neft(*line, "--factors", "2").stdout
    own = neft(*line, "--own-width")
    assert own.exit_code == 0 and "4 networks of these widths" in own.stdout and "no verdict" in own.stdout
    for options, words in (
        (("--factors", "1,x"), "--factors is '1,x'"),
        (("--factors", "0.3"), "whole hidden widths"),
        (("--factors", "1", "--own-width"), "own_width"),
    ):
        result = neft(*line, *options)
        assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1
