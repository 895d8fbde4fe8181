import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import neft
from neft import describe, plot
from neft.claims._registry import Registry
from neft.plot._style import COLOURS

CARDS = {
    "activation": lambda: describe.activation("tanh"),
    "network": lambda: describe.network(neft.MLP(widths=(2, 3, 1))),
    "draws": lambda: describe.network(neft.MLP(widths=(2, 3, 1)), draws=20),
    "outputs": lambda: describe.network(neft.MLP(widths=(2, 3, 1)), draws=20).draws,
    "constant outputs": lambda: describe.network(neft.MLP(widths=(2, 1), C_W=0.0), draws=20).draws,
    "averages": lambda: describe.averages(["relu"], points=3),
    "data": lambda: describe.data(neft.data.load("fashion-mnist", "test", full=False)),
    "ledger": lambda: Registry().check(),
}


@pytest.mark.parametrize("make", CARDS.values(), ids=CARDS)
def test_each_result_has_a_picture(make):
    figure = plot.draw(make())
    assert isinstance(figure, Figure)
    assert plot.svg(figure, salt="a").startswith("<svg")


def test_a_result_without_a_picture_is_refused():
    with pytest.raises(ValueError, match="Made has no picture"):
        plot.draw(neft.Made.by("test"))


def test_curves_that_are_none_and_variances_that_overflow_are_refused():
    with pytest.raises(ValueError, match=r"found is .*, but must hold a list of curves"):
        plot.rivals({"sgd": 3})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="density is 1e\\+308, but must be at most 1e300"):
        plot.output_distribution(1e308, np.zeros((2, 1)))


def test_feature_vectors_have_no_picture():
    card = describe.data(neft.data.load(([[0.0], [1.0]], [0, 1])))
    with pytest.raises(ValueError, match="feature vectors"):
        plot.draw(card)


def test_drawing_leaves_the_global_settings_alone():
    with mpl.rc_context({"lines.linewidth": 9.0}):
        before = dict(mpl.rcParams)
        plot.svg(plot.draw(describe.activation("tanh")), salt="a")
        assert dict(mpl.rcParams) == before


def test_the_users_settings_do_not_change_the_picture():
    card = describe.activation("tanh")
    plain = plot.svg(plot.draw(card), salt="a")
    with mpl.rc_context({"lines.linewidth": 9.0, "font.size": 20.0, "savefig.pad_inches": 1.0}):
        assert plot.svg(plot.draw(card), salt="a") == plain


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_equal_results_give_equal_files(tmp_path, suffix):
    card = describe.activation("gelu")
    for name in "ab":
        plot.save(plot.draw(card), tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.svg, \.png or \.pdf"):
        plot.save(Figure(), tmp_path / "a.gif")


def test_a_jump_is_not_joined_by_a_line():
    slope = plot.draw(describe.activation("relu")).axes[0].lines[1]
    assert np.isnan(slope.get_ydata()[200])


@pytest.mark.parametrize("ground", [(1.0, 1.0, 1.0), (0x14 / 255, 0x17 / 255, 0x1A / 255)], ids=["light", "dark"])
@pytest.mark.parametrize("colour", COLOURS)
def test_colours_stand_out_from_the_page(colour, ground):
    def luminance(rgb):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
        return np.dot([0.2126, 0.7152, 0.0722], linear)

    low, high = sorted((luminance(mpl.colors.to_rgb(colour)), luminance(ground)))
    assert (high + 0.05) / (low + 0.05) >= 3


def test_classifiers_are_drawn_against_their_width():
    names = ["accuracy", "confidence", "overconfidence", "nll"]
    theory = {"times n": [[-2.0, -1.0, 1.0, 4.0], [0.1] * 4]}
    seen = {str(n): [[-1.5 / n, -1.0 / n, 0.5 / n, 3.0 / n], [1e-3] * 4] for n in (64, 256)}
    kept = {"observed": names, "infinite": [[0.8, 0.7, -0.1, 0.5], [0.0] * 4], "theory": theory}
    kept |= {"simulation": {"changes": seen}}
    figure = plot.classifiers(kept)
    upper, lower = figure.axes[0], figure.axes[3]
    for axes, start, power in ((upper, 0.8, -1), (lower, 0.0, 0)):
        n, theory = axes.lines[1 if axes is upper else 0].get_data()
        np.testing.assert_allclose(theory, start - 2.0 * np.asarray(n) ** power)
    points = np.asarray(lower.containers[0].lines[0].get_data())
    np.testing.assert_allclose(points, [[64, 256], [-1.5, -1.5]])
    for bad in ({}, kept | {"observed": names[:2]}, kept | {"simulation": {"changes": {}}}, kept | {"theory": 1}):
        with pytest.raises(ValueError, match=r"kept is .*, but must hold what tools/classify_widths\.py keeps"):
            plot.classifiers(bad)
