"""Kernel regression on many points, against NumPy's solution of the whole system and against `predict` and `nngp`."""

import errno
import os
import shutil
import weakref

import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP, training, width
from neft.training import _budget, _conjugate, _direct, _kept, _panels, _pivots, _solver, _spectrum, _tiles, _where

NET = MLP(widths=(3, 16, 2), activation="relu", C_b=0.1, C_W=1.3, lambda_b=0.4, lambda_W=0.9)
RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(60, 3)), RNG.normal(size=(60, 2)), RNG.normal(size=(7, 3))


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of 16 inputs, so that a few points are many tiles."""
    for module in (_tiles, _budget):
        monkeypatch.setattr(module, "TILE", 16)


def positive(count, seed=1):
    m = np.random.default_rng(seed).normal(size=(count, count))
    return (m @ m.T + count * np.eye(count)) / count


class Given(_tiles.Tiles):
    """Tiles of a matrix that stands where the inputs do."""

    def tile(self, rows, columns, dtype):
        return self.x[rows, columns].astype(dtype)


@pytest.mark.parametrize("where", [_where.Panels, _where.InFiles])
@pytest.mark.parametrize("group", [1, 3])
def test_panels_are_the_columns_of_the_cholesky_factor(small_tiles, where, group):
    A = positive(53)
    panels = _direct.factor(Given(NET, A, "ntk"), where(53), group)
    L = np.zeros((53, 53))
    for cut, panel in zip(_tiles.cuts(53), panels):
        L[cut.start :, cut] = panel
    np.testing.assert_allclose(L, np.linalg.cholesky(A), atol=2e-6)
    right = RNG.normal(size=(53, 3)) * [1e-30, 1.0, 1e30]
    np.testing.assert_allclose(_panels.solve(panels, right) / np.linalg.solve(A, right), 1, atol=1e-3)
    assert _panels.panel_bytes(53) == 4 * sum(panel.size for panel in panels)


def test_a_matrix_without_a_factor_names_the_row(small_tiles):
    A = positive(40)
    A[35, 35] = -1
    with pytest.raises(_panels.NotPositive) as caught:
        _direct.factor(Given(NET, A, "ntk"), _where.Panels(40))
    assert caught.value.row == 35


def test_conjugate_gradients_solve_every_column_even_a_vanishing_one():
    A, b = positive(30), RNG.normal(size=(30, 3))
    b[:, 1] = 0
    found = _conjugate.conjugate(lambda v: A @ v, lambda r: r / np.diag(A)[:, None], b, 1e-12, 60)
    np.testing.assert_allclose(found.x, np.linalg.solve(A, b), atol=1e-10)
    assert found.residual <= 1e-12 and 3 < found.products <= 40
    assert _conjugate.conjugate(lambda v: A @ v, lambda r: r, b, 1e-12, 2).products == 2


def test_tiles_make_the_kernel_and_its_products(small_tiles):
    K, Theta = width.kernel(NET, X)
    v = RNG.normal(size=(60, 2))
    for which, whole in (("ntk", Theta), ("nngp", K)):
        tiles = _tiles.Tiles(NET, X, which, 0.3)
        whole = whole + 0.3 * np.eye(60)
        np.testing.assert_allclose(_tiles.Matrix(tiles)(v), whole @ v, rtol=1e-11)
        np.testing.assert_allclose(_tiles.Matrix(tiles, _tiles.keep(tiles, np.float64))(v), whole @ v, rtol=1e-11)
        assert all(entries.base is None for entries in _tiles.keep(tiles, np.float64).values())
        np.testing.assert_allclose(tiles.diagonal(), np.diag(whole) - 0.3, rtol=1e-12)
    panels = _direct.factor(tiles, _where.Panels(60))
    np.testing.assert_allclose(_panels.solve(panels, whole @ v), v, atol=1e-3)


def test_pivoted_columns_and_the_rest_of_the_diagonal_make_the_preconditioner(small_tiles, monkeypatch):
    monkeypatch.setattr(_pivots, "BLOCK", 8)
    tiles = _tiles.Tiles(NET, X, "ntk", 0.02)
    Theta = width.kernel(NET, X).Theta
    few, all_of_them = _pivots.pivoted(tiles, 16), _pivots.pivoted(tiles, 60)
    # What is left is positive, and smaller than what 16 columns at random can leave at worst.
    left = Theta - few.F.astype(float) @ few.F.T
    assert np.linalg.eigvalsh(left)[0] > -1e-4 * np.trace(left) and np.trace(left) < 0.1 * np.trace(Theta)
    np.testing.assert_allclose(few.delta, 0.02 + np.trace(left) / 60, rtol=1e-3)
    P = few.F.astype(float) @ few.F.T + few.delta * np.eye(len(few.F))
    v = RNG.normal(size=(60, 2))
    np.testing.assert_allclose(few(P @ v), v, atol=1e-8)
    np.testing.assert_allclose(all_of_them.F.astype(float) @ all_of_them.F.T, Theta, atol=1e-4)


def test_little_memory_takes_conjugate_gradients(small_tiles, monkeypatch):
    monkeypatch.setattr(_budget, "_RANKS", (8,))
    monkeypatch.setattr(_pivots, "BLOCK", 8)
    monkeypatch.setattr(_budget, "_GROUPS", ())
    whole = {plan.way: plan for plan in _budget.plans(10**6, 2, lambda rank: 100.0, _budget.Rates()) if not plan.keeps}
    assert whole["direct"].bytes > 100 * whole["conjugate gradients"].bytes
    monkeypatch.setattr(_budget, "direct", lambda *args, **kwargs: whole["direct"])
    fit = training.regress(NET, X, Y, ridge=0.05, residual=1e-9)
    assert fit.way == "conjugate gradients, preconditioner of rank 8, tiles kept"
    other = training.regress(NET, X, Y, ridge=0.05, kernel="ntk", residual=1e-9)
    A = np.linalg.solve(width.kernel(NET, X).Theta + 0.05 * np.eye(60), Y)
    np.testing.assert_allclose(fit.coefficients, A, atol=1e-6)
    assert 3 < fit.cost["products"] < 60 and other.residual <= 1e-9


@pytest.mark.slow
def test_a_preconditioner_saves_iterations(small_tiles, monkeypatch):
    monkeypatch.setattr(_pivots, "BLOCK", 8)
    tiles = _tiles.Tiles(NET, X, "ntk", 0.01)
    product = _tiles.Matrix(tiles, _tiles.keep(tiles, np.float64))
    counts = [
        _conjugate.conjugate(product, inverse, Y, 1e-8, 500).products
        for inverse in (lambda r: r, _pivots.pivoted(tiles, 8), _pivots.pivoted(tiles, 32))
    ]
    assert counts[0] > 1.2 * counts[1] > 1.2**2 * counts[2]


def test_the_cost_model_counts_what_is_held():
    plan = _budget.direct(60_000, 10, keeps=False)
    assert 7.2e9 < plan.bytes < 8.0e9  # half of the matrix, and not much more
    assert _budget.direct(60_000, 10, keeps=True).bytes > 3 * 7.2e9
    small = _budget.conjugate(60_000, 10, 2048, 100, keeps=False)
    assert 4 * 60_000 * 2048 < small.bytes < 2**31 - 5e8
    flops = _budget.direct(60_000, 10, keeps=False, rates=_budget.Rates(1e-11, 0, 0, 0)).seconds
    np.testing.assert_allclose(flops, 60_000**3 / 3 * 1e-11, rtol=0.01)
    entries = _budget.direct(60_000, 10, keeps=False, rates=_budget.Rates(0, 1e-8, 1e-7, 0)).seconds
    np.testing.assert_allclose(entries, 1.8e9 * (1e-8 + 2e-7), rtol=0.01)
    assert _budget.direct(9, 1, keeps=True, residual=1e-9).products == 3


def test_the_cost_model_counts_what_a_file_is_read_and_written():
    free = _budget.Rates(0, 0, 0, 0, 0, 0)
    start = _budget.in_file(60_000, 10, 3, rates=free).seconds
    lines = [(cut.start, cut.stop - cut.start) for cut in _tiles.cuts(60_000)]
    read = 2 * 2 * _panels.panel_bytes(60_000)  # two products, down and up
    for k, (row, _) in enumerate(lines[::3]):
        read += 4 * sum((60_000 - row) * columns for _, columns in lines[: 3 * k])
    found = _budget.in_file(60_000, 10, 3, rates=free._replace(read=1.0)).seconds - start
    np.testing.assert_allclose(found, read, rtol=0.02)
    written = _budget.in_file(60_000, 10, 3, rates=free._replace(written=1.0)).seconds - start
    np.testing.assert_allclose(written, _panels.panel_bytes(60_000))


def test_a_factor_that_memory_does_not_hold_goes_to_a_file_if_the_disk_holds_it():
    ways = _budget.plans(60_000, 10, lambda rank: 100.0, _budget.Rates())
    fits = [plan for plan in ways if plan.bytes < 2**31 - 8e8]
    assert str(fits[0]) == "direct, factor in a file" and fits[0].seconds < 0.2 * fits[-1].seconds
    assert fits[0].group > 1 and fits[0].seconds == min(plan.seconds for plan in fits)
    few = _budget.plans(60_000, 10, lambda rank: 100.0, _budget.Rates(), longest=60.0)
    assert max(plan.group for plan in few) == 4  # 2·60000²/4 operations and 60000 entries for each of 4096 columns
    ways = _budget.plans(60_000, 10, lambda rank: 100.0, _budget.Rates(), disk=7e9)
    assert not any(plan.group for plan in ways)
    # What fits to the last percent only is not tried.
    half = next(plan for plan in few if not plan.group and not plan.rank and not plan.keeps)
    assert _budget.fitting(few, 60_000, 1.02 * (half.bytes + _budget.resident())).group == 4
    assert _budget.fitting(few, 60_000, 1.1 * (half.bytes + _budget.resident())) == half


@pytest.mark.slow
def test_a_sample_tells_the_spectrum_of_the_whole():
    x = np.random.default_rng(3).normal(size=(900, 3))
    tiles = _tiles.Tiles(NET, x, "ntk", 0.0)
    values = np.linalg.eigvalsh(width.kernel(NET, x).Theta)[::-1]
    found = _spectrum.spectrum(tiles)
    np.testing.assert_allclose(found.largest, values[0], rtol=0.1)
    assert 0.3 < found.at(100) / values[99] < 3
    assert found.iterations(1.0, 1e-6)(50) < found.iterations(0.01, 1e-6)(50)


@pytest.mark.parametrize(
    ("kernel", "ridge"),
    [
        ("ntk", 0.0),
        pytest.param("ntk", 0.05, marks=pytest.mark.slow),
        pytest.param("nngp", 0.0, marks=pytest.mark.slow),
        ("nngp", 0.05),
    ],
)
def test_mean_and_variance_are_those_of_the_whole_system(small_tiles, kernel, ridge):
    every = np.concatenate([X, NEW])
    K, Theta = width.kernel(NET, every)
    M = Theta if kernel == "ntk" else K
    A = np.linalg.solve(M[:60, :60] + ridge * np.eye(60), M[:60, 60:])
    fit = training.regress(NET, X, Y, ridge=ridge, kernel=kernel, residual=1e-10)
    mean, variance = fit.predict(NEW, variance=True)
    np.testing.assert_allclose(mean, A.T @ Y, atol=1e-7)
    joint = np.concatenate([-A, np.eye(7)]).T
    over = np.diag(joint @ K @ joint.T)
    if kernel == "nngp":  # noise of the targets adds to what the ensemble varies by
        over = over + ridge * (A * A).sum(0)
    np.testing.assert_allclose(variance, over, atol=1e-7)
    own = (M[:60, :60] + ridge * np.eye(60)) @ fit.coefficients
    assert np.linalg.norm(own - Y, axis=0).max() <= 2e-10 * np.linalg.norm(Y, axis=0).max()
    assert fit.residual <= 1e-10


@pytest.mark.slow
def test_it_agrees_with_predict_and_nngp():
    found = training.regress(NET, X, Y).predict(NEW, variance=True)
    other = training.predict(NET, X, Y, NEW)
    np.testing.assert_allclose(found[0], other.mean, atol=1e-6)
    np.testing.assert_allclose(found[1], np.diag(other.cov), atol=1e-6)
    found = training.regress(NET, X, Y, kernel="nngp", ridge=0.2).predict(NEW, variance=True)
    other = training.nngp(NET, X, Y, NEW, noise=0.2)
    np.testing.assert_allclose(found[0], other.mean, atol=1e-6)
    np.testing.assert_allclose(found[1], np.diag(other.cov), atol=1e-6)


def test_a_fit_says_how_it_was_made_and_comes_back_from_a_file(tmp_path):
    fit = training.regress(NET, X, Y, ridge=0.1, residual=1e-11)
    assert fit.way == "direct, tiles kept" and fit.cost["products"] >= 1 and fit.cost["bytes expected"] > 0
    assert "residual" in repr(fit) and fit.made.tolerances == {"residual": 1e-11}
    fit.save(tmp_path / "fit.npz")
    again = neft.load(tmp_path / "fit.npz")
    for one, two in zip(fit.predict(NEW, variance=True), again.predict(NEW, variance=True)):
        np.testing.assert_allclose(one, two, atol=1e-9)


def test_labels_are_found_by_the_largest_output():
    fit = training.regress(NET, X, Y, ridge=0.1)
    tested = fit.test(NEW, (fit.predict(NEW).argmax(1) + np.array([0, 0, 1, 1, 0, 0, 0])) % 2)
    assert tested.accuracy == 5 / 7 and tested.points == 60 and fit.test(NEW).accuracy is None
    np.testing.assert_array_equal(tested.mean, fit.predict(NEW))
    assert tested.residual == fit.residual
    with one_sentence("labels has shape (6,)"):
        fit.test(NEW, [0] * 6)


@pytest.mark.slow
def test_inputs_in_single_precision_stay_what_they_are():
    fit = training.regress(NET, X.astype(np.float32), Y, residual=1e-9)
    assert fit.x.dtype == np.float32
    Theta = width.kernel(NET, X.astype(np.float32), dtype=np.float64).Theta
    np.testing.assert_allclose(Theta @ fit.coefficients, Y, atol=1e-7)


def test_an_input_that_is_there_twice_counts_once_without_a_ridge():
    twice, targets = np.concatenate([X, X[:2]]), np.concatenate([Y, Y[:2]])
    fit = training.regress(NET, twice, targets)
    np.testing.assert_allclose(fit.predict(NEW), training.regress(NET, X, Y).predict(NEW), atol=1e-6)
    with one_sentence("x", "1 and 61", "ridge"):
        training.regress(NET, twice, np.concatenate([Y, Y[:1], Y[:1]]))
    training.regress(NET, twice, np.concatenate([Y, Y[:1], Y[:1]]), ridge=0.1)


SMOOTH = MLP(widths=(1, 16, 1), activation="gelu", C_b=0.1)


@pytest.mark.slow
def test_what_a_refused_ridge_held_is_gone_when_the_next_one_begins(monkeypatch):
    held, real, x = [], _solver.factor, np.linspace(-1, 1, 200)[:, None]
    monkeypatch.setattr(_budget, "_RANKS", ())

    def seen(tiles, panels, *rest):
        alive = [one for one in held if one() is not None]
        assert not alive
        held.append(weakref.ref(panels))
        return real(tiles, panels, *rest)

    monkeypatch.setattr(_solver, "factor", seen)
    fit = training.regress(SMOOTH, x, np.sin(3 * x), ridge=[0.0, 0.1])
    assert len(held) == 2 and fit.ridge == 0.1 and np.isinf(fit.leave_one_out[0])


@pytest.mark.slow
def test_what_single_precision_cannot_bear_is_said_with_a_ridge_that_it_can():
    net, x = SMOOTH, np.linspace(-1, 1, 200)[:, None]
    with pytest.raises(ValueError, match="float32") as caught:
        training.regress(net, x, np.sin(3 * x))
    message = str(caught.value)
    ridge = float(message.partition("ridge=")[2].split()[0])
    assert message.startswith("ridge is 0, but") and message.endswith(".")
    fit = training.regress(net, x, np.sin(3 * x), ridge=ridge)
    Theta = width.kernel(net, x).Theta
    np.testing.assert_allclose(Theta @ fit.coefficients + ridge * fit.coefficients, np.sin(3 * x), atol=1e-5)
    assert ridge < 1e-6 * np.linalg.eigvalsh(Theta)[-1]


class Stopped(Exception):
    pass


def stop_after(monkeypatch, owner, name, calls):
    """The function fails at its call after so many."""
    real, left = getattr(owner, name), [calls]

    def run(*args, **kwargs):
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, run)
    return lambda: monkeypatch.setattr(owner, name, real)


@pytest.mark.parametrize(
    "way", ["direct", "direct, factor in a file", pytest.param("conjugate gradients", marks=pytest.mark.slow)]
)
def test_the_same_call_goes_on_where_it_was_stopped(small_tiles, monkeypatch, tmp_path, way):
    for module in (_solver, _direct):
        monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr(_pivots, "BLOCK", 4)
    direct, in_file = _budget.direct, _budget.in_file
    monkeypatch.setattr(_budget, "_RANKS", (8,) if way == "conjugate gradients" else ())
    monkeypatch.setattr(_budget, "_GROUPS", (2,) if way.endswith("file") else ())
    slow = {"bytes": 1e20, "seconds": 1e20} if way != "direct" else {}
    monkeypatch.setattr(_budget, "direct", lambda *a, keeps, **k: direct(*a, keeps=False, **k)._replace(**slow))
    monkeypatch.setattr(_budget, "in_file", lambda *a, **k: in_file(*a, **k)._replace(seconds=1.0))
    monkeypatch.setattr(_budget, "panel_bytes", lambda count: 10**4)
    call = lambda folder: training.regress(NET, X, Y, ridge=0.1, residual=1e-9, folder=folder)  # noqa: E731
    saved, save = [], _kept.Folder.save
    monkeypatch.setattr(_kept.Folder, "save", lambda *args, **kwargs: (saved.append(1), save(*args, **kwargs))[1])
    whole = call(tmp_path / "whole")
    monkeypatch.setattr(_kept.Folder, "save", save)
    assert whole.way.startswith(way) and len(saved) >= 12 and whole.way.endswith("file") == way.endswith("file")
    # Stopped within the factor, then within a product, and again in one; how many products it takes is rounding's.
    for calls in (3, len(saved) // 3, len(saved) // 6):
        again = stop_after(monkeypatch, _kept.Folder, "save", calls)
        with pytest.raises(Stopped):
            call(tmp_path / "part")
        again()
    done = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "part").glob("[pc]*-0000?.np[yz]")}
    fit = call(tmp_path / "part")
    np.testing.assert_array_equal(fit.coefficients, whole.coefficients)
    assert fit.cost["products"] == whole.cost["products"] and len(done) >= 2
    assert all((tmp_path / "part" / name).stat().st_mtime_ns == time for name, time in done.items())
    assert not (tmp_path / "part" / "reserved").exists() and not list((tmp_path / "part").glob("*.part"))


def test_a_folder_belongs_to_one_regression_and_says_what_is_wrong_with_it(tmp_path, monkeypatch):
    fit = training.regress(NET, X[:20], Y[:20], ridge=0.1, folder=tmp_path / "one")
    with one_sentence("folder is", "another ridge"):
        training.regress(NET, X[:20], Y[:20], ridge=0.2, folder=tmp_path / "one")
    panel = tmp_path / "one" / "panel-00000.npy"
    panel.write_bytes(panel.read_bytes()[:-1] + b"x")
    with one_sentence("panel-00000.npy", "is damaged"):
        training.regress(NET, X[:20], Y[:20], ridge=0.1, folder=tmp_path / "one")
    panel.unlink()
    again = training.regress(NET, X[:20], Y[:20], ridge=0.1, folder=tmp_path / "one")
    np.testing.assert_array_equal(fit.coefficients, again.coefficients)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "mine.txt").write_text("…")
    with one_sentence("folder is", "holds other files"):
        training.regress(NET, X[:20], Y[:20], folder=tmp_path / "two")
    (tmp_path / "three").write_text("…")
    with one_sentence("folder is", "cannot be used"):
        training.regress(NET, X[:20], Y[:20], folder=tmp_path / "three")
    (tmp_path / "one" / "regression.json").write_text("{}")
    with one_sentence("not the note of a regression"):
        training.regress(NET, X[:20], Y[:20], ridge=0.1, folder=tmp_path / "one")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100))
    with one_sentence("folder is", "more, but its disk has"):
        training.regress(NET, X[:20], Y[:20], folder=tmp_path / "four")


@pytest.mark.parametrize("writes", [3, 9])
def test_a_disk_that_fills_up_is_one_sentence_and_the_same_call_goes_on(small_tiles, monkeypatch, tmp_path, writes):
    monkeypatch.setattr(_solver, "EVERY", 0.0)
    real, left = os.fsync, [writes]

    def full(handle):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with one_sentence("cannot write", "No space left on device"):
        training.regress(NET, X, Y, ridge=0.1, folder=tmp_path / "one")
    kept = len(list((tmp_path / "one").glob("*.np[yz]")))
    monkeypatch.setattr(os, "fsync", real)
    fit = training.regress(NET, X, Y, ridge=0.1, folder=tmp_path / "one")
    assert kept >= 1 and not list((tmp_path / "one").glob("*.part"))
    np.testing.assert_array_equal(fit.coefficients, training.regress(NET, X, Y, ridge=0.1).coefficients)


def test_a_temporary_file_that_the_disk_cannot_hold_is_one_sentence(monkeypatch):
    def full(handle, start, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with one_sentence("a temporary file of", "No space left on device", "give a folder"):
        _where.InFiles(1000)


def test_bad_input_gets_a_sentence():
    with one_sentence("x has shape (0, 3)"):
        training.regress(NET, X[:0], Y[:0])
    with one_sentence("y holds nan at index (1, 0)"):
        training.regress(NET, X, np.where(np.arange(120).reshape(60, 2) == 2, np.nan, Y))
    with one_sentence("y has shape (59, 2)"):
        training.regress(NET, X, Y[1:])
    with one_sentence("ridge is -1"):
        training.regress(NET, X, Y, ridge=-1.0)
    with one_sentence("kernel is 'nkt'", "ntk"):
        training.regress(NET, X, Y, kernel="nkt")
    with one_sentence("memory is '8 potatoes'", "8GB"):
        training.regress(NET, X, Y, memory="8 potatoes")
    with one_sentence("memory is '3MB'", "60 points take", "give memory="):
        training.regress(NET, X, Y, memory="3MB")
    images = neft.Network((2, 2, 1), [neft.Conv(4, (2, 2)), "relu", neft.Flatten(), neft.Dense(2)])
    with one_sentence("net is", "positions for Conv", "`predict`"):
        training.regress(images, X[:, :1, None, None] * np.ones((2, 2, 1)), Y)
    with one_sentence("x_new has shape (7, 2)"):
        training.regress(NET, X, Y).predict(NEW[:, :2])


@pytest.mark.parametrize(("text", "size"), [("8GB", 8e9), ("2 GiB", 2**31), ("0.5mb", 5e5), (1e9, 1e9), ("70", 70)])
def test_sizes_are_read(text, size):
    assert _budget.parsed(text) == size
