import importlib
import itertools
import json
import math
import sys
import types

import draw_race
import jax
import numpy as np
import pytest
import race_optimizers
import race_run
from race_optimizers import Choice
from race_run import Curve, Rival, Row, Setting

RIVAL = Rival(None, 1.0, (0.8, 0.9))


def test_every_optimizer_has_the_same_number_of_trials_and_finds_the_minimum():
    for momenta in ((0.9,), (0.8, 0.9, 0.95)):

        def score(s):
            return abs(math.log(s.rate / 5)) + abs(s.horizon - 2) + abs(s.batch - 500) / 1000

        tried = race_optimizers.search(Rival(None, 1.0, momenta), score, 24)
        assert len(tried) == len(set(tried)) == 24
        best = min(tried, key=score)
        assert (best.batch, best.horizon) == (500, 2.0) and 5 / 2**0.5 <= best.rate <= 5 * 2**0.5


def test_a_fixed_horizon_is_not_searched():
    tried = race_optimizers.search(RIVAL, lambda s: s.rate, 9, (10.0,))
    assert {s.horizon for s in tried} == {10.0} and len(set(tried)) == 9


def test_levels_are_interpolated_and_what_is_not_reached_is_counted():
    record = {"epochs": [0, 1, 2], "seconds": [0.5, 1.0, 2.0], "cost": [2.0, 0.4, 0.2], "accuracy": [0.1, 0.9, 0.96]}
    assert race_run.reach(record, 0.3, 0) == pytest.approx((1.5, 1.5))
    assert race_run.reach(record, 0.5, 1) == pytest.approx((0.5, 0.75))
    assert race_run.reach(record, 0.97, 1) is None
    assert race_run.reach({**record, "cost": [2.0, math.nan, math.nan]}, 0.3, 0) is None
    line = race_optimizers.entry(
        Row("mnist", "plain", "sgd", "raw"), 0, Choice(Setting(1, 0, 50, 3), 24, 9), 0.3, [(1, 2), None, (2, 4)]
    )
    assert (line["seeds"], line["reached"], line["epochs"], line["seconds_error"]) == (3, 2, 1.5, 1.0)
    assert (line["trials"], line["trials_reached"]) == (24, 9)
    nobody = race_optimizers.entry(Row("mnist", "plain", "sgd", "raw"), 0, Choice(None, 24, 0), 0.3, [])
    assert nobody["setting"] is None and race_optimizers.place(nobody) > race_optimizers.place(line)
    whole = {**line, "reached": 3, "seconds": 99.0}
    assert sorted([line, whole], key=race_optimizers.place) == [whole, line]
    ranked = [race_optimizers.ranked(record, level, 0) for level in (0.3, 0.1, 0.05)]
    assert ranked[0] < ranked[1] < ranked[2]


def looked(stride, levels, values, limits=None):
    # The points that are taken of a run whose cost and accuracy are `values`, a second for each.
    curve = Curve(lambda params: values[params], levels, stride)
    for i in range(len(values)):
        late = limits is not None and curve.late(float(i), limits)
        if curve.add(i / 10, float(i), i, last=late or i in (0, len(values) - 1)) or late:
            break
    return curve.record()


def test_a_trial_is_looked_at_where_it_reaches_a_level_and_abandoned_where_it_cannot_be_first():
    costs = (2.0, 1.0, 0.9, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1)
    values = list(zip(costs, (0.1, 0.3, 0.4, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0), strict=True))
    every, some = (looked(stride, (0.5, 0.85), values) for stride in (1, 3))
    assert every["seconds"] == [0, 1, 2, 3, 4, 5, 6] and some["seconds"] == [0, 3, 4, 5, 6]
    for kind, level in enumerate((0.5, 0.85)):
        assert race_run.reach(every, level, kind) == race_run.reach(some, level, kind)
    assert looked(None, (-math.inf, math.inf), values)["cost"] == [2.0, 0.1]
    # The cost is reached in time and the accuracy is not; then neither is.
    assert looked(1, (0.95, 0.99), values, (3.0, 4.0))["seconds"][-1] == 5
    assert looked(1, (0.05, 0.99), values, (3.0, 2.0))["seconds"][-1] == 4
    assert looked(1, (0.95, None), values)["seconds"][-1] == 2


@pytest.mark.parametrize(("batch", "horizon"), [(50, 1.5), (200, 2.5), (500, 1.0)])
def test_an_epoch_has_ten_pieces_and_no_example_twice(batch, horizon):
    pieces = list(race_run.batches(50_000, Setting(1, 0, batch, horizon), 3))
    assert len(pieces) == round(10 * horizon) and {len(piece) for piece in pieces} == {5000 // batch}
    first = np.concatenate(pieces[:10]).ravel()
    assert len(set(first.tolist())) == 50_000


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["rngd", "momentum", "schedule-free"])
def test_a_rival_runs(optimizer, tmp_path):
    row, setting = Row("fashion-mnist", "plain", optimizer, "white"), None
    rival = race_run.RIVALS[optimizer]
    setting = Setting(rival.rate, rival.momenta[0], 50, 1.0)
    race = race_optimizers.Race(tmp_path / "runs.jsonl", 1, (1,), 500)
    record = race.run(row, setting, 1, (-math.inf, math.inf))
    assert record["epochs"] == pytest.approx(np.arange(11) / 10) and record["cost"][-1] < record["cost"][0]
    assert record["seconds"][0] > 0 and (np.diff(record["seconds"]) > 0).all()
    again = race_optimizers.Race(tmp_path / "runs.jsonl", 1, (1,), 500)
    assert again.run(row, setting, 1, (-math.inf, math.inf)) == record


def test_what_is_kept_is_what_the_command_runs():
    kept = json.loads(race_optimizers.FILE.read_text())
    rows = [
        Row(*one)
        for one in itertools.product(kept["levels"], race_optimizers.NORMS, race_run.RIVALS, race_optimizers.INPUTS)
    ]
    found = {Row(*(line[name] for name in Row._fields)) for line in kept["tuned"]}
    assert found == {row for row in rows if race_optimizers.takes_part(row)}
    assert all(line["trials"] == 24 and line["seeds"] in (0, 4) for line in kept["tuned"])
    assert {line["seeds"] for line in kept["unchanged"]} == {4}
    # What the page says of who is first.
    first = {}
    for line in sorted(kept["tuned"], key=race_optimizers.place):
        first.setdefault((line["data"], line["norm"], line["level"]), line["optimizer"])
    assert first == {
        ("mnist", "plain", "cost"): "rngd",
        ("mnist", "plain", "accuracy"): "schedule-free",
        ("mnist", "batch", "cost"): "adam",
        ("mnist", "batch", "accuracy"): "schedule-free",
        ("fashion-mnist", "plain", "cost"): "schedule-free",
        ("fashion-mnist", "plain", "accuracy"): "schedule-free",
        ("fashion-mnist", "batch", "cost"): "schedule-free",
        ("fashion-mnist", "batch", "accuracy"): "momentum",
    }


def test_the_page_holds_the_tables_as_they_are_printed(capsys, tmp_path):
    draw_race.main(["--plot", str(tmp_path / "race.svg")])
    page = (draw_race.DOCS / "fisher.md").read_text()
    tables = [part for part in capsys.readouterr().out.split("\n\n") if part.startswith("|")]
    assert len(tables) == 6
    for table in tables:
        assert table.strip() + "\n\n" in page


def test_seconds_of_k_fac_do_not_hold_the_compilation_of_its_keys(monkeypatch):
    monkeypatch.syspath_prepend(str(race_optimizers.FILE.parents[1] / "benchmarks" / "peers"))
    monkeypatch.setitem(sys.modules, "kfac_jax", types.ModuleType("kfac_jax"))
    kfac = importlib.import_module("kfac")
    training, happened = kfac.Training.__new__(kfac.Training), []
    training.x, training.y, training.key, training.done = np.ones((4, 2)), np.ones(4), jax.random.PRNGKey(0), 0
    training.params = training.state = training.momentum = None
    training.rate = lambda step: 0.1
    training.optimizer = types.SimpleNamespace(step=lambda *args, **how: (None, None, None))
    split = jax.random.split
    monkeypatch.setattr(jax.random, "split", lambda *args: happened.append("keys") or split(*args))
    monkeypatch.setattr(kfac.time, "process_time", lambda: happened.append("clock") or 0.0)
    training.steps(np.zeros((3, 2), int))
    assert happened == ["keys", "clock", "keys", "clock"] and training.done == 3


def test_the_command_says_what_it_would_take(capsys):
    assert race_optimizers.main(["--estimate", "--optimizers", "momentum", "--data", "mnist"]) == 0
    assert "6 rows, about" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        race_optimizers.main(["--seeds", "101"])
