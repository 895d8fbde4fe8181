"""A residual block of one matrix to order 1/width, for one input (docs/theory/residual, eqs. 12-30).

    z' = γz + b + Wσ(z), or σ of a norm of z

Tensors are n times their correlators, n the width of the stream. γ = 0 is a plain layer after a stream.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..network import Division, Linear
from ._behind_norm import means, of_stream, sums
from ._functionals import Functionals, Squares, parts, remainder, slope
from ._moments import Averages
from ._norms import LACKS
from ._one_input import Scalar, Tensors


class Through(NamedTuple):
    """The tensors and functionals after a block, and about how much of them is lost by keeping so many terms."""

    layer: Tensors
    y: Functionals
    lost: Scalar


def next_stream(
    layer: Tensors,
    y: Functionals,
    skip: Scalar,
    linear: Linear,
    mean: Averages,
    of: Squares,
    K: Scalar,
    Theta: Scalar,
    norm: Division | None = None,
) -> Through:
    """What is after a block from what is before it; K and Θ are those after it. Pure.

    Averages and coefficients are those of the activation at what it sees: a norm of the stream if there is one. With a
    norm P to U are left out.
    """
    if norm is not None:
        mean, of = of_stream(mean, of, 1 / (layer.K + norm.epsilon))
    C, rate = linear
    old_K, old_Theta, g2 = layer.K, layer.Theta, skip * skip
    rho = skip * jnp.sqrt(old_K / K)
    power = rho ** np.arange(len(of.s), dtype=float)
    later = np.append(0.0, np.ones(len(of.s) - 1))  # φ(1) = δ(1) = 0

    def d(u):
        return slope(u, old_K)

    sd, se, de = d(of.s) / 2, d(d(of.s)) / 2 - of.d, d(of.d) / 2
    seen = sums(norm, layer, linear, mean, of, sd)
    Omega, Lambda = seen.Omega, linear.theta(sd, old_Theta * de)
    a, g_Omega = mean.a, seen.g_Omega
    along, across = g2 + C * seen.g, g2 + C * a
    own = parts(layer, y)
    V, D, F, B, P, Q = (getattr(layer, name) - own[name] for name in "VDFBPQ")
    mean_Omega = linear.theta(mean.ss, old_Theta * a)
    Omega_ss = linear.theta(mean.ssss, old_Theta * mean.ssdd)
    Omega_Omega = rate * Omega_ss + C * old_Theta * linear.theta(mean.ssdd, old_Theta * mean.dddd)
    new_y: dict[str, Any] = {
        "phi": later * power * (along * y.phi + C * seen.s),
        "delta": later * power * (across * y.delta + g_Omega * y.phi + Omega),
        "psi": skip * power * (along * y.psi + C * old_Theta * seen.sd),
        "beta": g2 * power * (across * y.beta + C * old_Theta**2 * of.d),
    }
    phi_s, phi_Omega, psi_sd = y.phi @ seen.s, y.phi @ Omega, y.psi @ seen.sd
    beta_d = y.beta @ of.d
    new: dict[str, Any] = {
        "V": C**2 * (mean.ssss - mean.ss**2 + seen.ss) + along**2 * V + 2 * C * along * phi_s,
        "D": C * (Omega_ss - mean_Omega * mean.ss + seen.s_Omega)
        + across * (along * D + C * (y.delta @ seen.s))
        + along * (V * g_Omega + phi_Omega)
        + C * g_Omega * phi_s,
        "A": Omega_Omega
        - mean_Omega**2
        + seen.Omega_Omega
        + across**2 * layer.A
        + 2 * across * (D * g_Omega + y.delta @ Omega)
        + V * g_Omega**2
        + 2 * g_Omega * phi_Omega,
        "F": C**2 * old_Theta * (mean.ssdd + seen.sdsd) + along**2 * F + 2 * C * along * psi_sd,
        "B": C**2 * old_Theta**2 * mean.dddd + across**2 * B + 2 * C * across * beta_d,
    }
    X_s = layer.K1 * mean.g + V / 2 * mean.ss2 + y.phi @ d(d(of.s)) / 2
    X_d = layer.K1 * mean.m + V / 2 * mean.a2 + y.phi @ d(d(of.d)) / 2
    h_d = layer.Theta1 * a + (D + 2 * F) * mean.m + y.delta @ of.d + 2 * (y.psi @ d(of.d))
    if norm is not None:
        more_s, more_d, more_h = means(norm, layer, y, {"V": V, "F": F}, of)
        X_s, X_d, h_d = X_s + more_s, X_d + more_d, h_d + more_h
    new |= {
        "K1": g2 * layer.K1 + C * X_s,
        "Theta1": g2 * layer.Theta1 + linear.theta(X_s, old_Theta * X_d + h_d),
    }

    def Y(f, f_mean, f_dd):
        # f_mean is ⟨f⟩ and f_dd is ⟨f σ'²⟩.
        return C * old_Theta**2 * f_dd + across * (B * f_mean + y.beta @ f) + C * f_mean * beta_d

    P_bar, psi_Lambda = across * P + C * (y.varpi @ of.d), y.psi @ Lambda
    new_y |= {
        "varpi": g2 * power * (along * y.varpi + C * old_Theta**2 * se + C * mean.se * y.beta),
        "kappa": skip * power * (across * y.kappa + old_Theta * Lambda + g_Omega * y.psi),
    }
    new |= {
        "P": along * P_bar + C * Y(se, mean.se, mean.sdde),
        "Q": C * old_Theta * linear.theta(mean.ssdd, old_Theta * mean.sdde)
        + across * (along * Q + C * (y.kappa @ sd))
        + along * (F * g_Omega + psi_Lambda)
        + C * g_Omega * psi_sd,
    }
    if of.e is None:
        nothing = jnp.zeros_like(y.zeta)
        new_y |= {"varrho": nothing, "varsigma": nothing, "zeta": nothing}
        new |= dict.fromkeys("RSTU", 0 * layer.K)
    else:
        R, S = layer.R - own["R"], layer.S - own["S"]
        Xi = linear.theta(se, old_Theta * (d(d(of.d)) / 2 - of.e))
        Sigma = linear.theta(of.d, old_Theta * of.e)
        mean_Xi, mean_Sigma = linear.theta(mean.se, old_Theta * mean.dt), linear.theta(a, old_Theta * mean.ee)
        Xi_dd = linear.theta(mean.sdde, old_Theta * mean.dddt)
        Sigma_dd = linear.theta(mean.dddd, old_Theta * mean.ddee)
        Lambda_Lambda = rate * linear.theta(mean.ssdd, old_Theta * mean.sdde) + C * old_Theta * linear.theta(
            mean.sdde, old_Theta * mean.ddee
        )
        new_y |= {
            "varrho": g2 * power * (across * y.varrho + old_Theta**2 * Xi + mean_Xi * y.beta + g_Omega * y.varpi),
            "varsigma": g2 * power * (across * y.varsigma + old_Theta**2 * Sigma + mean_Sigma * y.beta),
            "zeta": g2 * skip * power * (across * y.zeta + C * old_Theta**3 * de),
        }
        new |= {
            "R": across * (across * R + C * (y.varrho @ of.d)) + Y(Xi, mean_Xi, Xi_dd) + g_Omega * P_bar,
            "S": across * (across * S + C * (y.varsigma @ of.d)) + Y(Sigma, mean_Sigma, Sigma_dd),
            "T": old_Theta * Lambda_Lambda
            + F * g_Omega**2
            + 2 * g_Omega * psi_Lambda
            + across**2 * layer.T
            + 2 * across * (Q * g_Omega + y.kappa @ Lambda),
            "U": C**2 * old_Theta**3 * mean.ddee + across**2 * layer.U + 2 * C * across * (y.zeta @ de),
        }
    if norm is not None:
        new |= dict.fromkeys(LACKS, 0 * layer.K)
        new_y |= dict.fromkeys(("varpi", "kappa"), jnp.zeros_like(y.zeta))
    found = Functionals(**new_y)
    added = parts(Tensors(K=K), found)
    whole = Tensors(K=K, Theta=Theta, **{name: value + added.get(name, 0.0) for name, value in new.items()})
    lost = jnp.stack(
        [
            2 * C * along * remainder(y.phi, of.s) / _positive(whole.V),
            2 * C * across * remainder(y.beta, of.d) / _positive(whole.B),
            C * remainder(y.phi, d(d(of.d)) / 2) * K**2 / _positive(whole.V),
        ]
    )
    return Through(whole, found, lost.max())


def _positive(value: Any) -> Any:
    # What vanishes loses nothing.
    return jnp.where(value > 0, value, jnp.inf)


def through_two_matrices(
    y: Functionals, skip: Scalar, old_K: Scalar, K: Scalar, slopes: Any, curvatures: Any
) -> Functionals:
    """The functionals after a two-matrix block, whose sources are all in the tensors (docs/theory/residual, eq. 31).

    Slopes are M, N and 𝒫, curvatures C₁C₂⟨σσ''⟩, E₃ and E₂ of docs/theory/blocks, eqs. 15-16 and 47.
    """
    (M, N, mixed), (second, third, both), g2 = slopes, curvatures, skip * skip
    power = (skip * jnp.sqrt(old_K / K)) ** np.arange(len(y.phi), dtype=float)
    return Functionals(
        phi=power * M * y.phi,
        delta=power * (N * y.delta + mixed * y.phi),
        psi=skip * power * M * y.psi,
        beta=g2 * power * N * y.beta,
        varpi=g2 * power * (M * y.varpi + second * y.beta),
        kappa=skip * power * (N * y.kappa + mixed * y.psi),
        varrho=g2 * power * (N * y.varrho + third * y.beta + mixed * y.varpi),
        varsigma=g2 * power * (N * y.varsigma + both * y.beta),
        zeta=g2 * skip * power * N * y.zeta,
    )
