// What follows from the tensors at a width n: the same formulas on a server's page, in a notebook and in a file.
"use strict";
(() => {
  const neft = (globalThis.neftExplore ??= {});
  class Sentence extends Error {
    constructor({ error, fields }) { super(error ?? "a value cannot be worked with"); this.sentence = error; this.fields = fields; }
  }
  neft.Sentence = Sentence;

  const LIMIT = 0.5, FINE = 0.1, BROKEN = 1;
  const ROUNDING = 1e-12; // of K²: what arithmetic leaves of a V that a norm before the output makes zero

  // N(z; 0, k2) [1 + k4 / (24 k2^2) He4(z / sqrt k2)]: docs/theory/width, eq. 19.
  neft.edgeworth = (z, variance, fourth) => {
    const square = z * z / variance;
    const gauss = Math.exp(-square / 2) / Math.sqrt(2 * Math.PI * variance);
    return gauss * (1 + fourth / (24 * variance * variance) * (square * square - 6 * square + 3));
  };

  // Of what is positive and a product over layers. Its mean and spread are all that order 1/width knows.
  neft.lognormal = (h, mean, spread) => {
    if (!(h > 0 && mean > 0)) return 0;
    const square = Math.log(1 + (spread / mean) ** 2), from = Math.log(h / mean) + square / 2;
    return Math.exp(-from * from / (2 * square)) / (h * Math.sqrt(2 * Math.PI * square));
  };

  const reach = (variance, fourth) => {
    // The first place where the correction is no longer small beside the Gaussian.
    const size = Math.abs(fourth) / (24 * variance * variance);
    for (let u = 0; u < 8; u += 0.005)
      if (size * Math.abs(u ** 4 - 6 * u * u + 3) >= LIMIT) return u * Math.sqrt(variance);
    return Infinity;
  };

  neft.derive = (tensors, n) => {
    const has = name => Array.isArray(tensors[name]);
    const { K, Theta, V, A, B, K1, Theta1 } = tensors;
    const ntk = has("Theta") && has("A") && has("B") && has("Theta1") && Theta.every(value => value > 0);
    const width = has("V") && has("K1");
    const rows = K.map((value, i) => {
      const row = { layer: i + 1, K: value, Theta: has("Theta") ? Theta[i] : null };
      if (width) {
        row.K_n = value + K1[i] / n;
        row.V = Math.abs(V[i]) > ROUNDING * value * value ? V[i] : 0;
        row.K_spread = Math.sqrt(Math.max(0, row.V / n));
        row.coupling = row.V / (n * value * value);
        row.strength = Math.max(row.coupling, Math.abs(K1[i]) / (n * value));
      }
      if (ntk) {
        row.Theta_n = Theta[i] + Theta1[i] / n;
        row.Theta_spread = Math.sqrt(Math.max(0, (A[i] + 2 * B[i]) / n));
        const relative = (A[i] + 2 * B[i]) / (n * Theta[i] ** 2);
        row.strength = Math.max(row.strength ?? 0, relative, Math.abs(Theta1[i]) / (n * Theta[i]));
      }
      return row;
    });
    const last = rows[rows.length - 1];
    const found = { rows, last, n, width, ntk, density: null, tangent: null };
    if (width && last.K > 0) {
      const variance = last.K_n, fourth = 3 * last.V / n;
      found.density = variance > 0
        ? { K: last.K, variance, fourth, reach: reach(variance, fourth), positive: fourth / (4 * variance ** 2) < 1 }
        : { K: last.K, variance: null };
    }
    if (ntk) found.tangent = { infinite: last.Theta, mean: last.Theta_n, spread: last.Theta_spread };
    if (width) {
      const strength = last.strength;
      found.strength = strength;
      found.verdict = strength < FINE ? "fine" : strength < BROKEN ? "strained" : "beyond";
      found.kurtosis = 3 * last.coupling;
    }
    return found;
  };

  neft.short = (value, digits = 3) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return "∞";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < 1e-3 || size >= 1e5) return value.toExponential(digits - 1).replace("-", "−");
    return String(Number(value.toPrecision(digits))).replace("-", "−");
  };
  neft.percent = part => `${part >= 0.1 ? Math.round(100 * part) : neft.short(100 * part, 2)}\u00a0%`;
})();
