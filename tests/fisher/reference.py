"""A plain NumPy transcription of the published algorithm (docs/theory/fisher, eqs. 13-14), for relu and softmax."""

import numpy as np

LAMBDA, T, OMEGA, DAMPING = 0.005, 100, 1.0, 1e-4


def forward(weights, x):
    """Inputs x̃ of every layer, preactivations, and the class probabilities."""
    tildes, ts = [], []
    h = x
    for W in weights:
        tilde = np.hstack([h, np.ones((len(h), 1))])
        t = tilde @ W.T
        tildes.append(tilde)
        ts.append(t)
        h = np.maximum(t, 0)
    e = np.exp(ts[-1] - ts[-1].max(axis=1, keepdims=True))
    return tildes, ts, e / e.sum(axis=1, keepdims=True)


def gradients(weights, x, y, l2):
    """The cost's gradient by back-propagation, L2 on weights only, with what the metric needs."""
    tildes, ts, p = forward(weights, x)
    delta = p.copy()
    delta[np.arange(len(y)), y] -= 1
    delta /= len(y)
    result = [None] * len(weights)
    for l in reversed(range(len(weights))):
        result[l] = delta.T @ tildes[l]
        result[l][:, :-1] += l2 * weights[l][:, :-1]
        if l:
            delta = (delta @ weights[l][:, :-1]) * (ts[l - 1] > 0)
    return result, tildes, ts


def start(weights):
    """Every neuron's metric is the identity; a layer's neurons share it in the first and the last layer."""
    last = len(weights) - 1
    metrics = [
        [np.eye(W.shape[1])] if l in (0, last) else [np.eye(W.shape[1]) for _ in W] for l, W in enumerate(weights)
    ]
    inverses = [[G.copy() for G in layer] for layer in metrics]
    return metrics, inverses


def step(weights, metrics, inverses, k, x, y, eta, l2, period=T):
    """Step number k (from 1): the metric, every T steps its inverse, then the weights."""
    grads, tildes, ts = gradients(weights, x, y, l2)
    for l, layer in enumerate(metrics):
        for i in range(len(layer)):
            nu = np.ones(len(x)) if len(layer) == 1 else (1 / (1 + np.exp(-ts[l][:, i] / OMEGA))) ** 2
            mean = sum(n * np.outer(row, row) for n, row in zip(nu, tildes[l])) / len(x)
            layer[i] = (1 - LAMBDA) * layer[i] + LAMBDA * mean
            if k % period == 0:
                damped = layer[i] + DAMPING * np.trace(layer[i]) * np.eye(len(layer[i]))
                inverses[l][i] = np.linalg.inv(damped)
    for l, W in enumerate(weights):
        for i in range(len(W)):
            G = inverses[l][i if len(inverses[l]) > 1 else 0]
            W[i] -= eta * G @ grads[l][i]
