"""Pages about networks of blocks: their pieces, what each section says, and the whole page of a pre-norm network."""

import json
import os
import pickle
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

from neft import (
    MLP,
    Dense,
    Kink,
    LayerNorm,
    Network,
    Residual,
    RMSNorm,
    activation,
    data,
    describe,
    plot,
    report,
    width,
)
from neft.report import _reasons as reasons
from neft.report._blocks_glance import in_words_of_the_command_line
from neft.report._drawn import drawn
from neft.report._passed import correlation, curve, passed_on
from neft.report._section_action import convergence, stopping
from neft.report._section_glance import glance
from neft.report._section_training import forecast
from neft.report._section_width import flow
from neft.report._subject import Subject

TITLES = ("In short", "Width", "Training", "Loss as a series", "Optimizers", "Glossary", "How it was made")
WHY = (
    reasons.no_phases,
    reasons.no_advice,
    reasons.no_order_one,
    reasons.no_orders,
    reasons.no_rivals,
    reasons.no_terms,
    reasons.no_finite_width,
)


def three_clouds(count=120):
    rng = np.random.default_rng(0)
    y = np.arange(count) % 3
    return data.load((rng.normal(size=(count, 2)) + np.eye(3, 2)[y], y))


def pre_norm(inputs=2, w=8, outputs=3, act="gelu", blocks=3):
    block = Residual(RMSNorm(), Dense(2 * w), act, Dense(w))
    return Network(inputs, [Dense(w), *[block] * blocks, RMSNorm(), Dense(outputs)])


# Its page is written whole: two blocks are the fewest that are repeated, and compile faster than three.
WHOLE = pre_norm(inputs=784, outputs=10, blocks=2)


POST_NORM = Network(2, [Dense(8), Residual("tanh", Dense(8)), LayerNorm(), "tanh", Dense(3)])
TWO_MATRICES = Network(2, [Dense(8), Residual(Dense(16), "tanh", Dense(8), skip=0.7), Dense(3)])
SIGN = activation(jnp.sign, name="sign", kinks=[Kink(0.0, 0, 2.0)])
JUMP = Network(2, [Dense(8), SIGN, Dense(8), Residual("tanh", Dense(8)), Dense(3)])
ONE_MATRIX = Network(2, [Dense(8), Residual("relu", Dense(8)), LayerNorm(), Dense(3)])
NORMED = Network(2, [Dense(4), LayerNorm(), "tanh", Dense(3)])


def subject(net, some=None):
    return Subject(net=net, train=three_clouds() if some is None else some, test=None, seed=0)


def test_blocks_in_words_and_their_parameters():
    net = pre_norm()
    assert net.in_words()[1:] == ("skip 1 around [RMSNorm, dense to 16, gelu, dense to 8]",) * 3 + (
        "RMSNorm, dense to 3",
    )
    counted = [sum(leaf.size for leaf in jax.tree.leaves(part)) for part in net.init(jax.random.key(0))]
    assert net.parameters_of_parts() == tuple(counted) and sum(counted) == net.parameter_count()
    gained = Network(
        2, [LayerNorm(lambda_bias=0.5), Dense(4, C_W=2.0), Residual("relu", Dense(6), skip=Dense(6)), "relu"]
    )
    assert gained.in_words() == (
        "LayerNorm with bias trained at 0.5, dense to 4 (C_W = 2)",
        "dense to 6 as a skip around [relu, dense to 6], relu",
    )
    assert gained.parameters_of_parts() == (2 + 12, 30 + 30)


@pytest.mark.parametrize("net", [pre_norm(), POST_NORM, ONE_MATRIX], ids=["pre-norm", "post-norm", "one matrix"])
def test_what_does_not_apply_is_one_sentence(net):
    of = subject(net)
    known = of.stats.tensors["V"] is not None
    for why in WHY:
        sentence = why(of)
        if (known and why is reasons.no_finite_width) or why in (reasons.no_phases, reasons.no_advice):
            assert sentence is None
            continue
        assert sentence.endswith(".") and ". " not in sentence and "\n" not in sentence and len(sentence) < 165
    assert "holds Residual and" in reasons.no_order_one(of)
    if not known:
        with pytest.raises(width.AbsentTensor) as absent:
            _ = of.stats.V
        assert reasons.no_finite_width(of) == str(absent.value)


def test_a_plain_network_has_no_reason_and_other_ones_have_theirs():
    assert [why(subject(MLP((2, 8, 3)))) for why in WHY] == [None] * len(WHY)
    assert "has 2 activations" in reasons.no_phases(subject(Network(2, [Dense(4), "tanh", Dense(4), "gelu", Dense(3)])))
    mixed = subject(Network(2, [Dense(8), Residual("tanh", Dense(8)), Residual(Dense(8), "tanh", Dense(8)), Dense(3)]))
    assert reasons.no_phases(mixed).endswith("but this network repeats none.")
    assert reasons.no_order_one(mixed).endswith("holds Residual: neft predict --order 1 takes it.")
    assert "do not alternate" in reasons.no_phases(subject(Network(2, [Dense(4), Dense(3)])))
    assert "relu has a kink" in reasons.no_series(subject(ONE_MATRIX)) and reasons.no_series(subject(POST_NORM)) is None


@pytest.mark.slow
def test_draws_are_passed_on_as_brute_force_says():
    net, x = Network(2, [Dense(6), Residual("tanh", Dense(6)), LayerNorm(lambda_gain=0.5), Dense(3)]), np.eye(2)
    found, key = passed_on(net, x, 3, jax.random.key(4)), jax.random.key(4)
    params = net.init(jax.random.fold_in(key, 2), dtype=jnp.float32)
    zs = [np.asarray(z, float) for z in net.preactivations(params, jnp.asarray(x, jnp.float32))]
    assert np.allclose(found.K[2], [z @ z.T / z.shape[1] for z in zs], rtol=1e-5)
    assert found.places == (0, 1, 2) and found.Theta.shape == (3, 3)
    # The last stage by gradients of one output after the other; all three stand for themselves.
    gradients = [jax.grad(lambda p, i=i: net.apply(p, jnp.eye(2, dtype=jnp.float32)[0])[i])(params) for i in range(3)]
    rates = jax.tree.leaves(net.rates())
    squares = [sum(r * float((g**2).sum()) for r, g in zip(rates, jax.tree.leaves(one))) for one in gradients]
    assert np.isclose(found.Theta[2, 2], np.mean(squares), rtol=1e-5)
    outputs, ntk = drawn(net, x[0], 3, key)
    assert np.allclose(ntk[2], squares, rtol=1e-5) and np.allclose(outputs[2], zs[2][0], rtol=1e-5)


def test_errors_of_correlations_are_those_of_many_repetitions():
    rng = np.random.default_rng(1)
    z = rng.multivariate_normal([0, 0], [[1.0, 0.6], [0.6, 2.0]], size=(400, 50, 5))
    K = np.einsum("rdna,rdnb->rdab", z, z)[:, :, None] / 5
    seen = [correlation(one, 0, 1) for one in K]
    spread = np.std([one.mean[0] for one in seen])
    assert abs(np.mean([one.mean[0] for one in seen]) - 0.6 / np.sqrt(2)) < 5 * spread / 20
    assert 0.85 < np.mean([one.stderr[0] for one in seen]) / spread < 1.15
    assert correlation(np.zeros((3, 1, 2, 2)), 0, 1).mean == [0.0]
    assert curve(K[0, :, 0, :, 0]).stderr == pytest.approx(K[0, :, 0, :, 0].std(0, ddof=1) / np.sqrt(50))


def test_pictures_of_blocks():
    theory, mean, error = np.array([[1.0, 2.0, 3.0], [0.5, 0.5, 0.5]]), np.ones((2, 2)), np.full((2, 2), 0.1)
    axes = plot.through_blocks(theory, mean, error, np.array([1, 3]), label="K", names=("a", "b")).axes[0]
    bars = axes.containers[1]
    segments = np.array(bars.lines[2][0].get_segments())
    assert np.allclose(segments[:, 1, 1] - segments[:, 0, 1], 0.4) and np.allclose(segments[:, 0, 0], [1, 3])
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {
        f"{n}, {w}" for n in "ab" for w in ("theory", "drawn")
    }
    with one_sentence("names", "one entry for each of 2 curves"):
        plot.through_blocks(theory, mean, error, np.array([1, 3]), label="K")
    alone = plot.through_blocks(theory[:1], np.zeros((1, 0)), np.zeros((1, 0)), np.zeros(0, int), label="Theta").axes[0]
    assert not alone.containers and alone.get_ylabel() == "Θ"
    values = np.random.default_rng(0).normal(scale=2.0, size=(500, 3))
    axes = plot.output_distribution(4.0, values).axes[0]
    (line,) = [line for line in axes.lines if line.get_label() == "infinite width"]
    assert abs(np.trapezoid(line.get_ydata(), line.get_xdata()) - 1) < 1e-5 and line.get_ydata().max() < 0.2
    axes = plot.ntk_distribution(values + 9, mean=9.0, infinite=9.0).axes[0]
    assert "predicted mean and spread" not in [line.get_label() for line in axes.lines]
    card = describe.network(TWO_MATRICES)
    assert np.allclose(plot.draw(card).axes[0].lines[0].get_ydata(), card.K)


def test_another_process_gets_what_a_page_is_about_and_not_what_is_known_of_it():
    of = subject(pre_norm())
    assert of.title and of.stats and of.words
    sent = pickle.loads(pickle.dumps(of))
    assert vars(sent).keys() == {"net", "train", "test", "seed", "recipe"} and sent.title == of.title


def test_a_block_that_the_command_line_can_name_is_named():
    dense = Dense(8)
    for block, words in (
        (Residual("relu", dense), "relu --residual"),
        (
            Residual(LayerNorm(), "leaky_relu(0.1)", dense, skip=0.9),
            "'leaky_relu(0.1)' --residual --skip 0.9 --norm layer",
        ),
        (Residual(RMSNorm(), "tanh", dense), "tanh --residual --norm rms"),
        (Residual(RMSNorm(epsilon=0.1), "tanh", dense), None),
        (Residual(dense, "tanh", dense), None),
    ):
        net = Network(2, [dense, block, block, Dense(3)])
        assert in_words_of_the_command_line(subject(net)) == words


def test_the_examples_fit_the_network():
    assert report.examples(full=False, inputs=784)[0].features == 784
    assert report.examples(full=False, inputs=196)[0].preprocessing == "pool(196)+global"
    assert report.examples(full=False, inputs=7)[0].features == 49


def write_pages(folder):
    """Pages of several networks of blocks, in one process, and what failed in them."""
    train, test = report.examples(full=False, inputs=784)
    whole = report.write(folder / "whole.html", WHOLE, train, test, quick=True, seed=1)
    failed = {section.title: section.failure for section in whole.sections}
    for name, (net, parts, _) in OTHERS.items():
        quick = name != "in full"
        sections = [("Part", *parts)]
        done = report.write(folder / f"{name}.html", net, three_clouds(), sections=sections, quick=quick, seed=1)
        failed[name] = done.sections[0].failure
    (folder / "failed.json").write_text(json.dumps(failed))


OTHERS = {
    "in full": (
        NORMED,
        (convergence, stopping),
        ("The loss at θ<sub>0</sub> is", "∇S<sub>T</sub>·∇S<sub>E</sub> turns negative"),
    ),
    "one matrix": (
        ONE_MATRIX,
        (glance, flow, convergence),
        (
            "relu has a kink",
            "are not known for relu: it has no rec",
            "LayerNorm, dense to 3",
            "LayerNorm subtracts",
        ),
    ),
    "jump": (JUMP, (glance, flow, forecast, convergence, stopping), ("sign jumps, so it has no grad",)),
}


pytestmark = pytest.mark.xdist_group("report blocks")  # what the fixture makes is made once


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A folder of pages, written by a process whose compiler does little: compiling them takes most of the time."""
    folder = tmp_path_factory.mktemp("pages")
    run = f"import pathlib, report.test_blocks as t; t.write_pages(pathlib.Path({str(folder)!r}))"
    strict = {"JAX_NUMPY_RANK_PROMOTION": "raise", "JAX_NUMPY_DTYPE_PROMOTION": "strict"}
    # Beside the flags of all tests, of which another makes the compiler faster still: the last of a name is taken.
    least = f"{os.environ['XLA_FLAGS']} --xla_backend_optimization_level=0"
    flags = {"XLA_FLAGS": least, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", run], env=os.environ | strict | flags, check=True)
    return folder


def text_of(pages, name):
    text = (pages / f"{name}.html").read_text()
    assert not re.search(r"\bnan\b|Traceback|Error:", text, re.IGNORECASE)
    return text


@pytest.mark.slow
def test_no_section_of_them_fails(pages):
    assert json.loads((pages / "failed.json").read_text()) == dict.fromkeys((*TITLES, *OTHERS))


@pytest.mark.slow
def test_the_whole_page_of_a_pre_norm_network(pages):
    text, net = text_of(pages, "whole"), WHOLE
    assert "<h1>Residual RMSNorm gelu 784-8-8-8-10 on fashion-mnist (bundled subset)</h1>" in text
    train, test = report.examples(full=False, inputs=784)
    of = Subject(net=net, train=train, test=test, seed=1)
    said = [sentence for why in WHY if (sentence := why(of)) is not None]
    assert len(said) == len(WHY) - 3 and all(sentence.rstrip(".") in text for sentence in said)
    # Quick pages leave the phase diagram of a block to the command.
    assert "--quick leaves out the phase diagram of a block" in text
    assert "Norms fix" in text and "Depth 4 at width 8 is" in text
    assert "the variance of an output differs by" in text and "leaves out their sim" in text
    headings = ("What to change", "Through the blocks", "At order 1/width", "Is it critical?", "From draw to draw")
    headings += ("Predicted and trained",)
    headings += ("After training, at this width", "Order by order", "Terms", "Along the line", "Early stopping")
    assert re.findall("<h3>(.*?)</h3>", text) == [*headings, "RNGD and its rivals"]
    assert "blocks 2 to 3: skip 1 around [RMSNorm, dense to 16, gelu, dense to 8] each" in text
    assert "neft advise --network net.json --depth 4 --width " in text
    # Infinitely wide networks and the trained one answer more often right than not.
    shares = re.findall(r'NTK\)">([0-9.]+) ± .*?NNGP\)">([0-9.]+) ±', text)
    assert len(shares) == 2 and np.all(np.array(shares, float) > 50)
    assert float(re.search(r"nats \(([0-9.]+) % right\)", text)[1]) > 50
    assert re.search(r"converges for t below about [0-9.e-]+ only, where what a norm divides by", text)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_networks_of_blocks_tell_their_story(pages, name):
    text = text_of(pages, name)
    assert all(words in text for words in OTHERS[name][-1])


@pytest.mark.slow
def test_a_whole_page_has_what_a_quick_one_leaves_out(pages):
    text = text_of(pages, "in full")
    assert "--quick" not in re.sub("<code>.*?</code>", "", text)
    # The loss at the start is the order 0, and orders go to the twelfth.
    start = re.search(r"The loss at θ<sub>0</sub> is ([0-9.]+)", text)[1]
    assert f'data-label="S_0 + … + S_n">{start}<' in text and 'data-label="order n">12<' in text


@pytest.mark.slow
def test_drawn_networks_are_around_infinite_width():
    net = Network(2, [Dense(128), Residual(RMSNorm(), "tanh", Dense(128)), Dense(4)])
    x = np.array([[1.0, 0.5], [-0.3, 1.2]])
    found, theory = passed_on(net, x, 128, jax.random.key(0)), width.statistics(net, x, only=("K", "Theta"))
    for seen, known in ((curve(found.K[:, :, 0, 0]), theory.K), (curve(found.Theta), theory.Theta)):
        # Beyond chance there is what is of order 1/width.
        assert np.all(np.abs(seen.mean - known[:, 0, 0]) < 5 * seen.stderr + 4 / 128 * known[:, 0, 0])
    card = describe.network(net, draws=300)
    assert abs(card.draws.z_score) < 5 and card.K[-1] == card.draws.K and len(card.draws.outputs) == 300
