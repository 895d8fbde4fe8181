import numpy as np
import pytest

from neft import fisher, load

X = np.array([[0.0, 0.1], [8.0, 0.0], [0.5, -0.5], [-9.0, 3.0]])


def test_informative_inputs_are_those_in_the_linear_region(tmp_path):
    found = fisher.geometry(fisher.neuron("tanh", [1.0, 0.0, 0.0], X))
    np.testing.assert_allclose(found.information, 1 / np.cosh(X[:, 0]) ** 2, rtol=1e-12)
    assert found.order.tolist() == [0, 2, 1, 3]
    assert 1 < found.effective_samples < 2.1 and found.samples == 4 and found.rank == 3
    found.save(tmp_path / "g.json")
    assert load(tmp_path / "g.json") == found


def test_informative_inputs_of_a_softmax_are_the_ambiguous_ones():
    W = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    eta = np.exp(X @ W[:, :2].T)
    eta /= eta.sum(1, keepdims=True)
    found = fisher.geometry(fisher.softmax_layer(W, X))
    np.testing.assert_allclose(found.information, 1 - (eta**2).sum(1), atol=1e-15)


def test_a_linear_layer_finds_all_inputs_alike():
    found = fisher.geometry(fisher.linear_layer(3, X))
    assert found.information.tolist() == [3.0] * 4
    assert found.effective_samples == pytest.approx(4) and found.parameters == 9
