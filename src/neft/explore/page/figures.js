// Figures: each function takes numbers and an element, and leaves one picture in it.
"use strict";
(() => {
  const neft = (globalThis.neftExplore ??= {});
  const COLOURS = { finite: "#0072B2", infinite: "#D55E00", drawn: "#009E73", point: "#CC79A7" };
  neft.COLOURS = COLOURS;
  const LETTERS = { Theta: "Θ", K1: "K₁", Theta1: "Θ₁" };
  neft.letter = name => LETTERS[name] ?? name;

  function show(element, options, label) {
    const width = Math.max(240, Math.floor(options.width ?? element.clientWidth));
    const picture = Plot.plot({ className: "neft-plot", ...options, width });
    // Its rules stand in the page's own style sheet, where the policy allows them.
    picture.querySelectorAll("style").forEach(style => style.remove());
    // Parts of an image have no names of their own.
    for (const name of ["aria-label", "aria-description", "aria-hidden"]) picture.querySelectorAll(`[${name}]`).forEach(part => part.removeAttribute(name));
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", label);
    picture.setAttribute("fill", "currentColor");
    picture.setAttribute("font-family", "system-ui, sans-serif");
    picture.setAttribute("font-size", options.fontSize ?? 12);
    picture.setAttribute("text-anchor", "middle");
    return picture;
  }

  function legend(picture, entries, x, y) {
    const group = d3.select(picture).append("g").attr("class", "legend").attr("text-anchor", "start");
    entries.forEach(([label, colour, kind], i) => {
      const row = group.append("g").attr("transform", `translate(${x},${y + 17 * i})`);
      if (kind === "dot") row.append("circle").attr("cx", 9).attr("r", 3.5).attr("fill", colour);
      else if (kind === "band") row.append("rect").attr("y", -6).attr("width", 18).attr("height", 11).attr("fill", colour).attr("fill-opacity", 0.22);
      else row.append("line").attr("x2", 18).attr("stroke", colour).attr("stroke-width", 2).attr("stroke-dasharray", kind === "dashed" ? "5 3" : null);
      row.append("text").attr("x", 24).attr("dy", "0.35em").text(label);
    });
  }

  // What the highest value is multiplied by, so that so many lines of a legend stand above everything that is drawn.
  const room = lines => 236 / (236 - 17 * lines - 12);
  const highest = histogram => histogram ? d3.max(histogram.density, (value, i) => value + 2 * histogram.stderr[i]) : 0;

  const bars = (data, x, y, error) => [
    Plot.ruleX(data, { x, y1: d => d[y] - 2 * d[error], y2: d => d[y] + 2 * d[error], stroke: COLOURS.drawn, strokeWidth: 1.3 }),
    Plot.dot(data, { x, y, r: 3, fill: COLOURS.drawn }),
  ];

  const plain = { fontSize: 12, marginTop: 24, marginRight: 12, marginBottom: 38, marginLeft: 48 };
  const exponent = value => value === 0 ? "0" : d3.format(".3~e")(value);
  const farther = size => size < 1e-3 || size >= 1e5 ? exponent : undefined;
  const integers = count => count <= 12 ? d3.range(1, count + 1) : d3.ticks(1, count, 8).filter(Number.isInteger);

  // One number through the layers: at this width with its spread, and at infinite width.
  neft.drawLayers = (element, rows, keys, label, drawn) => {
    // Rounding is drawn as the 0 that it is.
    const largest = d3.max(rows, d => Math.abs(d[keys.finite] ?? 0));
    if (largest > 0 && largest < 1e-9) rows = rows.map(d => ({ ...d, [keys.finite]: 0 }));
    const values = rows.flatMap(d => [d[keys.infinite], d[keys.finite]]).filter(v => Number.isFinite(v));
    const positive = values.length && Math.min(...values) > 0;
    const log = positive && Math.max(...values) / Math.min(...values) > 60;
    const banded = keys.spread && rows.some(d => Number.isFinite(d[keys.spread]));
    const marks = [];
    if (banded) marks.push(Plot.areaY(rows, {
      x: "layer", y1: d => log ? Math.max(d[keys.finite] - d[keys.spread], Math.min(...values) / 3) : d[keys.finite] - d[keys.spread],
      y2: d => d[keys.finite] + d[keys.spread], fill: COLOURS.finite, fillOpacity: 0.18 }));
    if (keys.infinite) marks.push(Plot.lineY(rows, { x: "layer", y: keys.infinite, stroke: COLOURS.infinite, strokeWidth: 2, strokeDasharray: "5 3" }));
    if (keys.finite && rows.some(d => Number.isFinite(d[keys.finite]))) marks.push(Plot.lineY(rows, { x: "layer", y: keys.finite, stroke: COLOURS.finite, strokeWidth: 2.2 }));
    if (keys.finite && rows.length < 26) marks.push(Plot.dot(rows, { x: "layer", y: keys.finite, r: 2.4, fill: COLOURS.finite }));
    if (drawn) marks.push(...bars(drawn, "layer", "mean", "stderr"));
    const picture = show(element, { ...plain, height: 210, marks: [Plot.gridY({ strokeOpacity: 0.12 }), ...marks],
      x: { label: "layer", ticks: integers(rows.length), tickFormat: "d", labelArrow: "none", labelAnchor: "center", domain: [1, Math.max(2, rows.length)] },
      y: { label: keys.name, labelArrow: "none", ticks: 5, type: log ? "log" : "linear", nice: true, zero: keys.zero ?? false,
        tickFormat: log ? exponent : farther(d3.max(values.map(Math.abs))) } }, label);
    element.replaceChildren(picture);
    return picture;
  };

  neft.drawDensity = (element, density, histogram, label) => {
    const sigma = Math.sqrt(density.variance ?? density.K), limit = 4.2 * sigma;
    const grid = d3.range(-limit, limit * 1.0001, limit / 120);
    const finite = density.variance ? grid.map(z => ({ z, p: neft.edgeworth(z, density.variance, density.fourth) })) : [];
    const gauss = grid.map(z => ({ z, p: neft.edgeworth(z, density.K, 0) }));
    const top = room(histogram ? 3 : 2) * Math.max(d3.max(gauss, d => d.p), d3.max(finite, d => d.p) ?? 0, highest(histogram));
    const marks = [Plot.gridY({ strokeOpacity: 0.12 })];
    if (density.variance && density.reach < limit) marks.push(Plot.rect([[-limit, -density.reach], [density.reach, limit]],
      { x1: d => d[0], x2: d => d[1], y1: 0, y2: top, fill: "currentColor", fillOpacity: 0.06 }));
    marks.push(Plot.areaY(finite, { x: "z", y1: 0, y2: "p", fill: COLOURS.finite, fillOpacity: 0.1, clip: true }),
      Plot.lineY(gauss, { x: "z", y: "p", stroke: COLOURS.infinite, strokeWidth: 2, strokeDasharray: "5 3" }),
      Plot.lineY(finite, { x: "z", y: "p", stroke: COLOURS.finite, strokeWidth: 2.4, clip: true }));
    if (histogram) marks.push(...bars(histogram.at.map((z, i) => ({ z, p: histogram.density[i], e: histogram.stderr[i] })).filter(d => Math.abs(d.z) <= limit), "z", "p", "e"));
    const picture = show(element, { ...plain, height: 300, marks: [...marks, Plot.ruleY([0], { strokeOpacity: 0.4 })],
      x: { label: "output z", labelArrow: "none", labelAnchor: "center", domain: [-limit, limit], tickFormat: farther(limit) },
      y: { label: "density", labelArrow: "none", ticks: 5, tickFormat: farther(top), domain: [Math.min(0, (d3.min(finite, d => d.p) ?? 0) * 1.1), top] } }, label);
    const entries = [["infinite width: Gaussian", COLOURS.infinite, "dashed"]];
    if (density.variance) entries.push(["order 1/width", COLOURS.finite, "line"]);
    if (histogram) entries.push(["drawn networks ± 2 s.e.", COLOURS.drawn, "dot"]);
    legend(picture, entries, plain.marginLeft + 8, plain.marginTop + 6);
    element.replaceChildren(picture);
  };

  neft.drawTangent = (element, tangent, histogram, label) => {
    const spread = tangent.spread || 1e-3 * Math.abs(tangent.mean || 1);
    let low = tangent.mean - 4 * spread, high = tangent.mean + 4 * spread;
    low = Math.max(0, Math.min(low, tangent.infinite - spread)); high = Math.max(high, tangent.infinite + spread);
    if (histogram) { low = Math.min(low, histogram.at[0]); high = Math.max(high, histogram.at[histogram.at.length - 1]); }
    const curve = tangent.spread ? d3.range(low, high, (high - low) / 200).map(h => ({ h, p: neft.lognormal(h, tangent.mean, spread) })) : [];
    const peak = Math.max(d3.max(curve, d => d.p) ?? 0, highest(histogram)) || 0.75, top = room(histogram ? 3 : 2) * peak;
    const marks = [Plot.gridY({ strokeOpacity: 0.12 }),
      Plot.areaY(curve, { x: "h", y1: 0, y2: "p", fill: COLOURS.finite, fillOpacity: 0.1 }),
      Plot.lineY(curve, { x: "h", y: "p", stroke: COLOURS.finite, strokeWidth: 2.4 }),
      Plot.ruleX([tangent.infinite], { y1: 0, y2: peak, stroke: COLOURS.infinite, strokeWidth: 2, strokeDasharray: "5 3" })];
    if (histogram) marks.push(...bars(histogram.at.map((h, i) => ({ h, p: histogram.density[i], e: histogram.stderr[i] })), "h", "p", "e"));
    const picture = show(element, { ...plain, height: 300, marks: [...marks, Plot.ruleY([0], { strokeOpacity: 0.4 })],
      x: { label: "diagonal element H of the NTK", labelArrow: "none", labelAnchor: "center", domain: [low, high], ticks: 6, tickFormat: farther(high) },
      y: { label: "density", labelArrow: "none", ticks: 5, tickFormat: farther(top), domain: [0, top] } }, label);
    const entries = [["infinite width", COLOURS.infinite, "dashed"]];
    if (tangent.spread) entries.push(["order 1/width, as a log-normal", COLOURS.finite, "line"]);
    if (histogram) entries.push(["drawn networks ± 2 s.e.", COLOURS.drawn, "dot"]);
    legend(picture, entries, plain.marginLeft + 8, plain.marginTop + 6);
    element.replaceChildren(picture);
  };

  // The phase diagram; returns the scales, by which the point is moved without drawing it again.
  neft.drawPhases = (element, found, label) => {
    const [nb, nw] = [found.C_b.length, found.C_W.length];
    const [x1, x2] = [found.C_W[0], found.C_W[nw - 1]], [y1, y2] = [found.C_b[0], found.C_b[nb - 1]];
    const step = [(found.C_W[nw - 1] - found.C_W[0]) / (nw - 1) / 2, (y2 - y1) / (nb - 1) / 2];
    const box = { x1: found.C_W[0] - step[0], x2: found.C_W[nw - 1] + step[0], y1: y1 - step[1], y2: y2 + step[1], width: nw, height: nb };
    const lost = code => code >= 3;
    const xi = found.xi.map((value, i) => lost(found.phase[i]) ? NaN : Math.log10(Math.min(1000, Math.max(0.3, value ?? 1000))));
    const chi = found.chi.map((value, i) => lost(found.phase[i]) || value === null ? NaN : value);
    const marks = [Plot.frame({ fill: "currentColor", fillOpacity: 0.16, stroke: "none" }),
      Plot.raster(xi, { ...box, fill: d => d, interpolate: "none", imageRendering: "auto", clip: "frame" })];
    const sides = chi.filter(v => Number.isFinite(v)), line = sides.length && Math.min(...sides) < 0.999 && Math.max(...sides) > 1.001;
    if (line)
      marks.push(Plot.contour(chi, { ...box, fill: "none", stroke: "#fff", strokeWidth: 2, thresholds: [1], clip: "frame" }));
    const labels = [];
    found.names.forEach((name, code) => {
      const cells = found.phase.flatMap((value, i) => value === code ? [i] : []);
      if (cells.length < 0.05 * found.phase.length) return;
      labels.push({ name, x: d3.mean(cells, i => found.C_W[i % nw]), y: d3.mean(cells, i => found.C_b[Math.floor(i / nw)]) });
    });
    marks.push(Plot.text(labels, { x: "x", y: "y", text: "name", fill: "#fff", stroke: "#10131a", strokeWidth: 4, fontSize: 14, fontWeight: 600 }));
    const stars = found.points.filter(p => p.C_W <= x2 && p.C_b <= y2 && p.C_W > 0);
    marks.push(Plot.dot(stars, { x: "C_W", y: "C_b", r: 8, symbol: "star", fill: "#FFD23F", stroke: "#10131a", strokeWidth: 1, clip: false }));
    const picture = show(element, { ...plain, height: 300, marginTop: 26, marginRight: 58, marks,
      x: { label: "C_W, variance of weights × fan-in", labelArrow: "none", labelAnchor: "center", domain: [x1, x2] },
      y: { label: "C_b, variance of biases", labelArrow: "none", domain: [y1, y2], ticks: 5 },
      color: { type: "linear", scheme: "cividis", domain: [Math.log10(0.3), 3] } }, label);
    ramp(picture, 300);
    element.replaceChildren(picture);
    const [x, y] = [picture.scale("x"), picture.scale("y")];
    return { picture, x, y, line, limits: [x1, x2, y1, y2] };
  };

  function ramp(picture, height) {
    // The scale of depths, beside the diagram.
    const width = +picture.getAttribute("width"), left = width - 46, top = 34, tall = height - 90;
    const group = d3.select(picture).append("g").attr("text-anchor", "start").attr("font-size", 11);
    d3.range(24).forEach(i => group.append("rect").attr("x", left).attr("width", 10).attr("height", tall / 24 + 0.6)
      .attr("y", top + tall * (1 - (i + 1) / 24)).attr("fill", d3.interpolateCividis((i + 0.5) / 24)));
    [[0, "0.3"], [Math.log10(10 / 0.3), "10"], [Math.log10(100 / 0.3), "100"], [Math.log10(1000 / 0.3), "10³"]].forEach(([v, text]) =>
      group.append("text").attr("x", left + 14).attr("y", top + tall * (1 - v / Math.log10(1000 / 0.3))).attr("dy", "0.35em").text(text));
    group.append("text").attr("x", left - 4).attr("y", top - 12).text("ξ layers");
  }

  neft.addPoint = (frame, at, label) => {
    const old = frame.picture.querySelector(".point");
    const group = old ? d3.select(old) : d3.select(frame.picture).append("g").attr("class", "point").attr("tabindex", 0).attr("role", "slider");
    if (!old) {
      group.append("circle").attr("class", "halo").attr("r", 15).attr("fill", "#fff").attr("fill-opacity", 0.25);
      group.append("circle").attr("r", 8).attr("fill", COLOURS.infinite).attr("stroke", "#fff").attr("stroke-width", 2.5);
    }
    const [x1, x2, y1, y2] = frame.limits;
    group.attr("transform", `translate(${frame.x.apply(Math.min(x2, Math.max(x1, at[0])))},${frame.y.apply(Math.min(y2, Math.max(y1, at[1])))})`)
      .attr("aria-label", "The network in the phase diagram; arrow keys move it").attr("aria-valuenow", at[0])
      .attr("aria-valuemin", x1).attr("aria-valuemax", x2).attr("aria-valuetext", label);
    return group.node();
  };

  neft.drawRegression = (element, data, label) => {
    const { infinite, finite, trained, points, index } = data;
    const rows = (one, i) => one ? one.x.map((x, k) => ({ x, m: one.mean[i][k], s: one.std[i][k] })) : [];
    const curve = rows(infinite, index), few = finite ? rows(finite, index) : [];
    const moment = trained?.moments?.[index];
    const drawn = moment ? trained.x.map((x, k) => ({ x, m: moment.mean[k], s: moment.std[k], e: moment.stderr[k] })) : [];
    const all = [...curve, ...few].flatMap(d => [d.m - 2 * d.s, d.m + 2 * d.s]).concat(points.map(p => p[1]));
    const size = Math.max(Math.min(12, Math.max(1.6, d3.quantile(all.map(Math.abs), 0.97) * 1.1)), ...points.map(p => Math.abs(p[1]) * 1.05));
    const reach = Math.max(2, ...points.map(p => Math.abs(p[0]) * 1.02));
    const marks = [Plot.gridY({ strokeOpacity: 0.12 })];
    if (curve.length) marks.push(Plot.areaY(curve, { x: "x", y1: d => d.m - 2 * d.s, y2: d => d.m + 2 * d.s, fill: COLOURS.infinite, fillOpacity: 0.13, clip: "frame" }),
      Plot.lineY(curve, { x: "x", y: "m", stroke: COLOURS.infinite, strokeWidth: 2, strokeDasharray: "5 3", clip: "frame" }));
    if (moment) moment.some.forEach(one => marks.push(Plot.lineY(trained.x.map((x, k) => ({ x, y: one[k] })), { x: "x", y: "y", stroke: COLOURS.drawn, strokeWidth: 0.8, strokeOpacity: 0.55, clip: "frame" })));
    if (few.length) [-2, 2].forEach(k => marks.push(Plot.lineY(few, { x: "x", y: d => d.m + k * d.s, stroke: COLOURS.finite, strokeWidth: 1.2, curve: "catmull-rom", clip: "frame" })));
    if (few.length) marks.push(Plot.lineY(few, { x: "x", y: "m", stroke: COLOURS.finite, strokeWidth: 2.4, curve: "catmull-rom", clip: "frame" }));
    if (drawn.length) marks.push(Plot.ruleX(drawn, { x: "x", y1: d => d.m - 2 * d.s, y2: d => d.m + 2 * d.s, stroke: COLOURS.drawn, strokeWidth: 1.2, clip: "frame" }), Plot.dot(drawn, { x: "x", y: "m", r: 3, fill: COLOURS.drawn, clip: "frame" }));
    marks.push(Plot.dot(points, { x: d => d[0], y: d => d[1], r: 6, fill: "currentColor", stroke: "#fff", strokeWidth: 1.5 }));
    const picture = show(element, { ...plain, height: 400, marks,
      x: { label: "x", labelArrow: "none", labelAnchor: "center", domain: [-reach, reach] },
      y: { label: "f(x)", labelArrow: "none", domain: [-size, size] } }, label);
    const entries = [["infinite width, ± 2 spreads", COLOURS.infinite, "dashed"]];
    if (few.length) entries.push(["this width, order 1/width", COLOURS.finite, "line"]);
    if (drawn.length) entries.push([`${trained.draws} trained networks, ± 2 spreads`, COLOURS.drawn, "dot"]);
    legend(picture, entries, plain.marginLeft + 8, plain.marginTop + 6);
    element.replaceChildren(picture);
    return { picture, x: picture.scale("x"), y: picture.scale("y") };
  };

  // The picture as a file that stands by itself, on white, with room for what stands over the edge of a picture in the page.
  const EDGE = 14;
  neft.svgText = element => {
    const pictures = [...element.querySelectorAll("svg.neft-plot")];
    const sizes = pictures.map(p => [+p.getAttribute("width"), +p.getAttribute("height")]);
    const width = d3.sum(sizes, s => s[0] + EDGE) + EDGE, height = d3.max(sizes, s => s[1]) + EDGE;
    const whole = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, color: "#1d2430", "font-family": "system-ui, sans-serif" }))
      whole.setAttribute(name, value);
    const ground = document.createElementNS(whole.namespaceURI, "rect");
    for (const [name, value] of Object.entries({ width, height, fill: "#fff" })) ground.setAttribute(name, value);
    whole.append(ground);
    let left = EDGE;
    pictures.forEach((picture, i) => {
      const copy = picture.cloneNode(true);
      copy.setAttribute("x", left);
      copy.setAttribute("overflow", "visible");
      copy.removeAttribute("tabindex");
      left += sizes[i][0] + EDGE;
      whole.append(copy);
    });
    return new XMLSerializer().serializeToString(whole);
  };
})();
