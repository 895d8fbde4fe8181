// The page: fields, addresses, what is asked of the source of numbers, and what is shown of its answers.
"use strict";
(() => {
  const neft = (globalThis.neftExplore ??= {});
  const NUMBERS = [
    { name: "depth", label: "Depth", hint: "layers of weights", whole: true, min: 2, max: 64, step: 1, most: 128 },
    { name: "width", label: "Width", hint: "of every hidden layer", whole: true, log: true, min: 2, max: 4096, most: 4096 },
    { name: "C_W", label: "C_W", html: ["C", "W"], hint: "variance of weights × fan-in", min: 0, max: 4, step: 0.01, most: 100 },
    { name: "C_b", label: "C_b", html: ["C", "b"], hint: "variance of biases", min: 0, max: 1, step: 0.01, most: 100 },
  ];
  const RATES = [
    { name: "lambda_W", label: "λ_W", html: ["λ", "W"], hint: "of weights × fan-in", min: 0, max: 4, step: 0.05, most: 1e6 },
    { name: "lambda_b", label: "λ_b", html: ["λ", "b"], hint: "of biases", min: 0, max: 4, step: 0.05, most: 1e6 },
  ];
  const SKIP = { name: "skip", label: "Strength of the skip", min: 0, max: 1.5, step: 0.01, most: 10 };
  const DRAWS = { name: "draws", label: "Networks", whole: true, log: true, min: 16, max: 16384, most: 20000 };
  const TENSORS = ["A", "B", "D", "F", "P", "Q", "R", "S", "T", "U", "K1", "Theta1"];
  const FLOWING = ["flow", "density", "ntk"]; // figures of what the flow gives
  const VERDICTS = { fine: "fine", strained: "strained", beyond: "beyond the expansion" };
  const SVG = "http://www.w3.org/2000/svg";

  const make = (tag, attributes = {}, ...inside) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes))
      if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null) element.setAttribute(name, value);
    element.append(...inside);
    return element;
  };
  neft.make = make;

  class Page {
    constructor(root, facts, source) {
      Object.assign(this, { root, facts, source, settings: structuredClone(facts.defaults), tab: "start" });
      this.find = selector => root.querySelector(selector);
      this.flow = null; this.derived = null; this.drawn = null; this.phases = null; this.frame = null;
      this.timings = []; this.chosen = new Set(); this.fields = {}; this.jobs = {};
      this.build();
      this.read();
      this.regression = new neft.Regression(this);
      this.listen();
      this.changed({ first: true });
    }

    // Fields.
    build() {
      const list = this.find("#f-activation");
      for (const name of this.facts.activations) list.append(make("option", { value: name }, name));
      if (!this.facts.tables) list.append(make("option", { value: "" }, "own expression…"));
      for (const field of NUMBERS) this.number(this.find("#numbers"), { ...field, ...this.facts.fields?.[field.name] });
      for (const field of RATES) this.number(this.find("#rates"), field);
      this.number(this.find("#skip"), SKIP);
      this.number(this.find("#draws"), DRAWS);
      const box = this.find("#tensors");
      for (const name of TENSORS) {
        const check = make("input", { type: "checkbox", id: `t-${name}`, value: name });
        check.addEventListener("change", () => { check.checked ? this.chosen.add(name) : this.chosen.delete(name); this.write(); this.showFlow(); });
        box.append(make("label", { class: "chip", for: `t-${name}` }, check, ` ${neft.letter(name)}`));
      }
      for (const card of this.root.querySelectorAll("[data-view]")) this.tools(card);
      this.find("#about").textContent = `neft ${this.facts.version}. ${this.facts.about ?? "Everything is computed on this machine."} Drawn with Observable Plot and D3 (ISC licence).`;
      if (this.facts.live) this.find("#live").textContent = this.facts.live;
      if (this.facts.tables) {
        for (const selector of ["#draw-box", "#rates", "#blocks", ".buttons", "#f-points", ".choose"]) {
          const part = this.find(selector);
          (part.closest("details") ?? part.closest(".field") ?? part).hidden = true;
        }
        this.find("#view-regression .small").textContent = this.facts.regression;
      }
    }

    number(place, field) {
      const id = `f-${field.name}`;
      const label = make("label", { for: id }, ...(field.html ? [make("i", {}, field.html[0]), make("sub", {}, field.html[1])] : [field.label]));
      if (field.hint) label.append(make("span", { class: "hint" }, ` ${field.hint}`));
      const toSlider = value => field.log ? Math.log2(value) : value;
      const fromSlider = value => field.log ? Math.round(2 ** value) : value;
      const slider = make("input", { type: "range", id, min: toSlider(field.min), max: toSlider(field.max), step: field.log ? 0.125 : field.step, "aria-describedby": `e-${field.name}` });
      const entry = make("input", { type: "number", id: `n-${field.name}`, step: "any", inputmode: field.whole ? "numeric" : "decimal", "aria-label": `${field.label}, as a number`, "aria-describedby": `e-${field.name}` });
      const error = make("p", { class: "error", id: `e-${field.name}`, role: "alert" });
      place.append(make("div", { class: "field" }, label, make("div", { class: "pair" }, slider, entry), error));
      slider.addEventListener("input", () => {
        this.since = performance.now();
        this.set({ [field.name]: fromSlider(+slider.value) });
      });
      entry.addEventListener("input", () => {
        this.since = performance.now();
        const value = entry.value.trim() === "" ? NaN : Number(entry.value);
        if (!Number.isFinite(value) || (field.whole && !Number.isInteger(value))) this.wrong({ [field.name]: `${field.label} must be a ${field.whole ? "whole " : ""}number.` });
        else this.set({ [field.name]: value }, entry);
      });
      this.fields[field.name] = { field, slider, entry, error, show: (value, from) => {
        slider.value = toSlider(value);
        slider.setAttribute("aria-valuetext", neft.short(value, 4));
        if (from !== entry) entry.value = field.whole ? value : Number(value.toPrecision(5));
      } };
    }

    listen() {
      const list = this.find("#f-activation"), own = this.find("#f-expression");
      list.addEventListener("change", () => {
        this.find("#own").hidden = list.value !== "";
        if (list.value) this.set({ activation: list.value });
        else if (own.value.trim()) this.set({ activation: own.value }, own); else own.focus();
      });
      let waiting = 0;
      const typed = () => { clearTimeout(waiting); if (own.value.trim() && own.value !== this.settings.activation) this.set({ activation: own.value }, own); };
      own.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(typed, 300); });
      own.addEventListener("change", typed);
      for (const name of ["residual", "norm"]) this.find(`#f-${name}`).addEventListener("change", event => this.set({ [name]: event.target.value }));
      this.find("#controls").addEventListener("submit", event => event.preventDefault());
      this.find("#apply").addEventListener("click", () => this.set({ C_b: this.advised.C_b, C_W: this.advised.C_W }));
      this.find("#draw").addEventListener("click", () => this.draw());
      this.find("#draw-stop").addEventListener("click", () => this.stop("draw"));
      const tabs = [...this.root.querySelectorAll("[role=tab]")];
      for (const tab of tabs) {
        tab.addEventListener("click", () => this.open(tab.id.slice(4)));
        tab.addEventListener("keydown", event => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (!step) return;
          const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
          next.focus(); this.open(next.id.slice(4));
        });
      }
      for (const button of this.root.querySelectorAll("[data-copy]")) button.addEventListener("click", async () => {
        await navigator.clipboard?.writeText(this.find(`#${button.dataset.copy}`).textContent).catch(() => {});
        button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
      if (this.facts.mode !== "widget") addEventListener("hashchange", () => { if (location.hash !== this.written) { this.read(); this.changed({}); this.regression.at(this.moment); } });
      let width = 0;
      new ResizeObserver(() => {
        const now = this.find("#content").clientWidth;
        if (Math.abs(now - width) > 2) { width = now; this.showAll(); }
      }).observe(this.find("#content"));
      this.source.onLost = sentence => { const banner = this.find("#banner"); banner.hidden = false; banner.textContent = sentence; };
      this.source.onBack = () => { this.find("#banner").hidden = true; this.phaseKey = null; this.changed({}); };
    }

    // Addresses: what differs from the defaults stands in the fragment, which is sent to nobody.
    read() {
      const given = new URLSearchParams(this.facts.mode === "widget" ? "" : location.hash.slice(1));
      const settings = structuredClone(this.facts.settings ?? this.facts.defaults);
      for (const [name, value] of given) {
        if (!(name in this.facts.defaults)) continue;
        const usual = this.facts.defaults[name];
        if (name === "points") settings.points = value.split(";").map(pair => pair.split(",").map(Number)).filter(pair => pair.length === 2 && pair.every(Number.isFinite));
        else settings[name] = typeof usual === "number" ? Number(value) : value;
        if (typeof usual === "number" && !Number.isFinite(settings[name])) settings[name] = usual;
      }
      this.settings = settings;
      this.tab = given.get("tab") === "train" ? "train" : "start";
      this.moment = /^\d+$/.test(given.get("time")) ? Number(given.get("time")) : null; // of the slider, from 0 on
      this.chosen = new Set((given.get("tensors") ?? "").split(",").filter(name => TENSORS.includes(name)));
      this.view = given.get("view");
    }

    address(view) {
      const parts = new URLSearchParams();
      for (const [name, usual] of Object.entries(this.facts.defaults)) {
        const value = this.settings[name];
        if (name === "points") { const text = value.map(pair => pair.join(",")).join(";"); if (text !== usual.map(pair => pair.join(",")).join(";")) parts.set(name, text); }
        else if (value !== usual) parts.set(name, value);
      }
      if (this.tab !== "start") parts.set("tab", this.tab);
      if (this.chosen.size) parts.set("tensors", [...this.chosen].join(","));
      if (this.tab === "train" && this.regression?.index !== undefined && this.regression.index !== null) parts.set("time", this.regression.index);
      if (view) parts.set("view", view);
      return `#${parts}`;
    }

    write() {
      if (this.facts.mode === "widget") return;
      clearTimeout(this.writing);
      this.writing = setTimeout(() => { this.written = this.address(); history.replaceState(null, "", this.written); }, 120);
    }

    // Changes.
    set(patch, from) { Object.assign(this.settings, patch); this.changed({ from }); }

    changed({ first, from } = {}) {
      this.clean();
      for (const [name, one] of Object.entries(this.fields)) one.show(this.settings[name], from);
      const named = this.facts.activations.includes(this.settings.activation);
      this.find("#f-activation").value = named ? this.settings.activation : "";
      this.find("#own").hidden = named;
      if (!named && from !== this.find("#f-expression")) this.find("#f-expression").value = this.settings.activation;
      for (const name of ["residual", "norm"]) this.find(`#f-${name}`).value = this.settings[name];
      if (this.settings.residual !== "none" || this.settings.norm !== "none") this.find("#blocks").open = true;
      this.find("#skip").hidden = this.settings.residual === "none";
      for (const check of this.root.querySelectorAll("#tensors input")) check.checked = this.chosen.has(check.value);
      this.stop("draw");
      this.drawn = null;
      this.movePoint();
      if (!first) this.write();
      this.open(this.tab);
      this.askPhases();
      this.askFlow();
      this.askWords();
      this.regression.changed();
    }

    open(tab) {
      this.tab = tab;
      for (const name of ["start", "train"]) {
        const button = this.find(`#tab-${name}`);
        button.setAttribute("aria-selected", name === tab);
        button.tabIndex = name === tab ? 0 : -1;
        const panel = this.find(`#panel-${name}`);
        const was = panel.hidden;
        panel.hidden = name !== tab;
        if (was && name === tab && this.regression) { this.showAll(); this.regression.changed(); }
      }
      this.find("#hero").hidden = tab !== "start";
      // Networks that are drawn are those of the first tab.
      if (!this.facts.tables) this.find("#draw-box").hidden = tab !== "start";
      if (this.written !== undefined || tab !== "start") this.write();
    }

    clean() { for (const place of this.root.querySelectorAll(".error")) place.textContent = ""; for (const e of this.root.querySelectorAll("[aria-invalid]")) e.removeAttribute("aria-invalid"); }

    wrong(fields) {
      for (const [name, sentence] of Object.entries(fields)) {
        (this.find(`#e-${CSS.escape(name)}`) ?? this.find("#e-draw")).textContent = sentence;
        (this.find(`#n-${CSS.escape(name)}`) ?? this.find(`#f-${CSS.escape(name)}`))?.setAttribute("aria-invalid", "true");
      }
    }

    failed(error, place = "#e-draw") {
      if (error.fields) this.wrong(error.fields);
      else if (error.sentence) this.find(place).textContent = error.sentence;
      else if (error.name !== "AbortError" && !error.lost) { this.find(place).textContent = String(error.message ?? error); }
    }

    // One question at a time, and always the latest.
    async askFlow() {
      this.wanted = { settings: structuredClone(this.settings), since: this.since };
      if (this.asking) return;
      this.asking = true;
      while (this.wanted) {
        const { settings, since } = this.wanted;
        this.wanted = null;
        this.find(".hero").classList.add("busy");
        await this.firstPhases;
        try {
          this.flow = await this.source.ask("flow", settings);
          this.derived = neft.derive(this.flow.tensors, settings.width);
          this.flowOf = settings;
          this.restored();
          for (const [name, sentence] of Object.entries(this.flow.beside ?? {})) this.find(`#e-${name}`).textContent = sentence;
          this.showStart();
          if (since) this.timings.push(performance.now() - since);
        } catch (error) {
          if (!error.lost) { if (error.fields) this.wrong(error.fields); this.refused(error); }
        }
        if (since === this.since) this.since = null;
      }
      this.find(".hero").classList.remove("busy");
      this.asking = false;
    }

    refused(error) {
      const badge = this.find("#badge");
      badge.textContent = "no answer"; badge.dataset.verdict = "none";
      this.find("#tiles").replaceChildren();
      this.find("#verdict").textContent = error.sentence ?? (error.fields ? "A value cannot be worked with: see beside its field." : String(error.message ?? error));
      this.find("#interpretation").textContent = "";
      this.find("#notes").hidden = true;
      this.find("#absent").replaceChildren();
      // What stands in the figures is about other settings.
      this.flow = this.derived = this.flowOf = null;
      for (const view of FLOWING) this.missing(this.find(`#view-${view}`), "There is no answer for these settings.");
    }

    missing(card, sentence) {
      card.querySelector(".plot").replaceChildren(make("p", { class: "missing" }, sentence));
      card.querySelector(".caption").textContent = "";
      this.table(card, [""], []);
      for (const button of card.querySelectorAll("[data-needs]")) button.disabled = true;
    }

    restored(views = FLOWING) {
      for (const view of views) {
        const card = this.find(`#view-${view}`);
        card.querySelector(".plot > .missing")?.remove();
        for (const button of card.querySelectorAll("[data-needs]")) button.disabled = false;
      }
    }

    async askPhases() {
      const { activation, residual, skip, norm } = this.settings;
      const key = JSON.stringify([activation, residual, residual === "none" ? 1 : skip, norm]);
      if (key === this.phaseKey) return;
      this.phaseKey = key;
      this.stop("phases");
      const settings = structuredClone(this.settings);
      const card = this.find("#view-phase");
      card.classList.add("busy");
      try {
        const started = performance.now(), asked = this.source.ask("phases", settings);
        // Of a new function the diagram comes first: what else is asked of it at the same time only slows it down.
        this.firstPhases = this.facts.activations.includes(activation) ? null : asked.catch(() => {});
        const coarse = await asked;
        if (key !== this.phaseKey) return;
        this.phases = coarse; this.restored(["phase"]); this.showPhases();
        card.classList.remove("busy");
        this.coarseTime = performance.now() - started;
        // The verdict takes less than a finer diagram, and is waited for.
        while (this.firstPhases && this.asking) await new Promise(after => setTimeout(after, 20));
        if (!coarse.fine && this.source.run && key === this.phaseKey) {
          // Where there is no finer diagram the coarse one stays.
          const fine = await this.run("phases", "phases", settings).catch(error => { if (error.sentence) return null; throw error; });
          if (fine && key === this.phaseKey) { this.phases = fine; this.showPhases(); }
        }
      } catch (error) {
        if (key !== this.phaseKey || error.name === "AbortError") return;
        if (error.lost) { this.phaseKey = null; return; }
        this.phases = null; this.frame = null;
        this.missing(card, error.sentence ?? "There is no phase diagram of these settings.");
      } finally { if (key === this.phaseKey) card.classList.remove("busy"); }
    }

    askWords() {
      clearTimeout(this.wording);
      this.stop("words");
      const settings = structuredClone(this.settings), mark = (this.wordMark = {});
      clearTimeout(this.staling);
      this.staling = setTimeout(() => this.showWords({ advice: { summary: "…" } }), 600); // what stands there is about other settings
      this.wording = setTimeout(async () => {
        await this.firstPhases;
        try {
          // Those of blocks take longer, and those of an own expression more memory than a server may lose.
          const plain = settings.residual === "none" && settings.norm === "none" && this.facts.activations.includes(settings.activation);
          const words = plain || !this.source.run ? await this.source.ask("words", settings) : await this.run("words", "words", settings);
          if (mark === this.wordMark && words) this.showWords(words);
        } catch (error) {
          if (mark === this.wordMark && error.name !== "AbortError" && !error.lost) this.showWords({ advice: { summary: error.sentence ?? "There is no answer for these settings." } });
        }
      }, 220);
    }

    // Long jobs: `slot` holds one at a time, and a new one ends the old one.
    async run(slot, name, settings, heard = () => {}) {
      this.stop(slot);
      const control = (this.jobs[slot] = new AbortController());
      try { return await this.source.run(name, settings, heard, control.signal); }
      finally { if (this.jobs[slot] === control) delete this.jobs[slot]; }
    }

    stop(slot) { this.jobs[slot]?.abort(); delete this.jobs[slot]; if (slot === "draw") this.drawing(false); }

    drawing(on) {
      this.find("#draw").hidden = on; this.find("#draw-stop").hidden = !on; this.find("#draw-progress").hidden = !on;
    }

    async draw() {
      this.clean();
      this.find("#draw-progress").value = 0;
      const settings = structuredClone(this.settings);
      const running = this.run("draw", "draw", settings, record => {
        this.find("#draw-progress").value = record.progress;
        if (record.found) { this.drawn = record.found; this.showStart(); }
      });
      this.drawing(true);
      try {
        const found = await running;
        if (found) { this.drawn = found; this.showStart(); this.drawing(false); }
      } catch (error) { if (error.name !== "AbortError") { this.failed(error); this.drawing(false); } }
    }

    // Pictures.
    showAll() { if (this.flow) this.showStart(); if (this.phases) this.showPhases(); this.regression?.show(); }

    showStart() {
      if (this.flow && this.tab === "start") { this.showVerdict(); this.showFlow(); this.showDensity(); this.showTangent(); }
    }

    showVerdict() {
      const { derived: d, flowOf: s } = this, badge = this.find("#badge");
      const tile = (name, value, hint) => make("div", {}, make("dt", {}, name), make("dd", {}, value), make("dd", { class: "hint" }, hint));
      const tiles = [];
      if (d.width) {
        badge.textContent = VERDICTS[d.verdict]; badge.dataset.verdict = d.verdict;
        const spreads = `the output’s variance by ${neft.percent(d.last.K_spread / d.last.K)}` + (d.ntk ? `, its NTK by ${neft.percent(d.last.Theta_spread / d.last.Theta)}` : "");
        this.find("#verdict").textContent = `Networks of depth ${s.depth} and width ${s.width} differ from one another at initialization: ${spreads}.` +
          (d.verdict === "beyond" ? " Corrections are as large as what they correct: only wider or shallower networks are described well." : "");
        tiles.push(tile("Largest correction", neft.short(d.strength), "of 1, where the expansion ends"),
          tile("Excess kurtosis", neft.short(d.kurtosis), "of an output; a Gaussian has 0"),
          tile("Depth / width", neft.short(s.depth / s.width), `${s.depth} layers, ${s.width} wide`));
      } else {
        badge.textContent = "infinite width"; badge.dataset.verdict = "none";
        this.find("#verdict").textContent = "Of this network only infinite width is known: what is not known at this width is named below.";
      }
      this.find("#tiles").replaceChildren(...tiles);
      const notes = this.find("#notes");
      notes.hidden = !this.flow.notes?.length; notes.textContent = (this.flow.notes ?? []).join(" ");
    }

    showWords(words) {
      clearTimeout(this.staling);
      const said = words.interpretation?.summary ?? "";
      this.find("#interpretation").textContent = said === this.find("#verdict").textContent ? "" : said;
      this.find("#advice").textContent = words.advice?.summary ?? "";
      this.advised = words.advice;
      this.find("#apply").hidden = !["C_W", "C_b"].every(name => (words.advice?.[name] ?? Infinity) <= this.fields[name].field.most);
    }

    estimates(name) {
      const one = this.drawn?.tensors?.[name];
      return one ? one.mean.map((mean, i) => ({ layer: i + 1, mean, stderr: one.stderr[i] })) : null;
    }

    showFlow() {
      const card = this.find("#view-flow"), d = this.derived, t = this.flow.tensors;
      const panels = [["K", { infinite: "K", finite: "K_n", spread: "K_spread", name: "K, variance", zero: false }, "K"]];
      if (t.Theta) panels.push(["Theta", { infinite: "Theta", finite: "Theta_n", spread: "Theta_spread", name: "Θ, mean NTK" }, "Theta"]);
      if (t.V) panels.push(["V", { finite: "V", name: "V, four-point vertex", zero: true }, "V"]);
      for (const name of this.chosen) if (t[name]) panels.push([name, { finite: name, name: neft.letter(name), zero: false }, name]);
      const place = card.querySelector(".plot");
      while (place.children.length > panels.length) place.lastChild.remove();
      while (place.children.length < panels.length) place.append(make("div"));
      panels.forEach(([name, keys], i) => {
        const rows = t[name] && !(name in d.rows[0]) ? d.rows.map((row, l) => ({ ...row, [name]: t[name][l] })) : d.rows;
        neft.drawLayers(place.children[i], rows, keys, `${neft.letter(name)} layer by layer; its numbers are in the table below.`, this.estimates(name));
      });
      const last = d.last;
      let text = `Dashed: infinite width. `;
      if (d.width) text += `Solid: the mean at width ${d.n}, with a band of one standard deviation from network to network; V measures that spread. At the output K = ${neft.short(last.K_n)} ± ${neft.short(last.K_spread)}` + (d.ntk ? ` and Θ = ${neft.short(last.Theta_n)} ± ${neft.short(last.Theta_spread)}.` : ".");
      if (this.drawn?.tensors) text += ` Dots: ${this.drawn.draws} drawn networks with two standard errors.`;
      card.querySelector(".caption").textContent = text;
      const absent = Object.entries(this.flow.absent ?? {});
      const list = new Map();
      for (const [name, sentence] of absent) { const why = sentence.replace(`${name} does not exist`, "do not exist").replace(`${name} is not known`, "are not known"); list.set(why, [...(list.get(why) ?? []), neft.letter(name)]); }
      this.find("#absent").replaceChildren(...[...list].map(([why, names]) => make("li", {}, `${names.join(", ")} ${names.length > 1 ? why : why.replace("do not exist", "does not exist").replace("are not known", "is not known")}`)));
      for (const check of this.root.querySelectorAll("#tensors input")) check.disabled = !t[check.value];
      const names = ["K", "Theta", "V", ...this.chosen].filter(name => t[name]);
      const head = ["layer", ...names.map(neft.letter), ...(d.width ? ["K at n", "± spread"] : []), ...(d.ntk ? ["Θ at n", "± spread"] : [])];
      const drawn = name => this.drawn?.tensors?.[name];
      for (const name of names) if (drawn(name)) head.push(`${neft.letter(name)} drawn`, "± s.e.");
      this.table(card, head, d.rows.map((row, i) => [row.layer, ...names.map(name => t[name][i]), ...(d.width ? [row.K_n, row.K_spread] : []), ...(d.ntk ? [row.Theta_n, row.Theta_spread] : []),
        ...names.flatMap(name => drawn(name) ? [drawn(name).mean[i], drawn(name).stderr[i]] : [])]));
    }

    showDensity() {
      const card = this.find("#view-density"), place = card.querySelector(".plot");
      const found = this.derived.density ?? { K: this.derived.last.K, variance: null };
      neft.drawDensity(place, found, this.drawn?.outputs, "Density of an output over networks; its numbers are in the table below.");
      let text = "Dashed: the Gaussian of infinite width.";
      const shaded = found.reach > 0 ? `Shaded, beyond |z| = ${neft.short(found.reach)}:` : "Shaded, which is everywhere:";
      if (found.variance) text = `At width ${this.derived.n} an output has variance ${neft.short(found.variance)} instead of ${neft.short(found.K)} and excess kurtosis ${neft.short(this.derived.kurtosis)}: ` +
        (this.derived.kurtosis > 0 ? "more outputs near 0 and far out than the dashed Gaussian says." : "it is a Gaussian to this order.") +
        (Number.isFinite(found.reach) ? ` ${shaded} the correction is more than half of the Gaussian, and is not to be trusted.` : "");
      else if (this.derived.width) text += ` K + K₁/n is not positive: width ${this.derived.n} is too small for a density of order 1/width.`;
      if (this.drawn) text += ` Dots: ${this.drawn.draws} drawn networks.`;
      card.querySelector(".caption").textContent = text;
      const sigma = Math.sqrt(found.variance ?? found.K);
      this.table(card, ["z", "infinite width", "order 1/width"], d3.range(-3, 3.1, 0.5).map(u => [u * sigma, neft.edgeworth(u * sigma, found.K, 0), found.variance ? neft.edgeworth(u * sigma, found.variance, found.fourth) : null]));
    }

    showTangent() {
      const card = this.find("#view-ntk"), place = card.querySelector(".plot");
      const tangent = this.derived.tangent ?? (this.derived.last.Theta ? { infinite: this.derived.last.Theta, mean: this.derived.last.Theta, spread: 0 } : null);
      if (!tangent) { place.replaceChildren(make("p", { class: "missing" }, "This activation has no NTK: it jumps, or nothing is trained.")); card.querySelector(".caption").textContent = ""; this.table(card, ["NTK"], []); return; }
      neft.drawTangent(place, tangent, this.drawn?.ntk, "Distribution of the NTK over networks; its numbers are in the table below.");
      const histogram = this.drawn?.ntk;
      card.querySelector(".caption").textContent = tangent.spread
        ? `The speed at which an output learns differs by ${neft.percent(tangent.spread / tangent.infinite)} of its infinite-width value from network to network; its mean is ${neft.short(tangent.mean)}, at infinite width ${neft.short(tangent.infinite)}.` + (histogram ? ` Drawn: ${neft.short(histogram.mean, 4)} ± ${neft.short(histogram.mean_stderr, 2)}, spread ${neft.short(histogram.std)}.` : "")
        : `At infinite width the NTK is ${neft.short(tangent.infinite)} for every network; its spread at this width is not known here.`;
      const rows = [["infinite width", tangent.infinite, 0]];
      if (tangent.spread) rows.push(["order 1/width", tangent.mean, tangent.spread]);
      if (histogram) rows.push([`${this.drawn.draws} drawn networks`, histogram.mean, histogram.std]);
      this.table(card, ["", "mean of H", "spread"], rows);
    }

    showPhases() {
      const card = this.find("#view-phase"), found = this.phases;
      if (this.tab !== "start") return;
      const focused = document.activeElement?.closest?.(".point");
      this.frame = neft.drawPhases(card.querySelector(".plot"), found, "Phase diagram in C_W and C_b; the arrow keys move the point in it.");
      // A picture that holds something to move is no image.
      this.frame.picture.setAttribute("role", "group");
      const picture = this.frame.picture;
      const point = this.movePoint();
      const grain = this.facts.grain ?? [0.01, 0.005];
      const snap = (value, size) => +(Math.round(value / size) * size).toFixed(4);
      if (focused) point.focus();
      const place = event => {
        const box = picture.getBoundingClientRect(), scale = +picture.getAttribute("width") / box.width;
        const [x1, x2, y1, y2] = this.frame.limits;
        const x = this.frame.x.invert((event.clientX - box.left) * scale), y = this.frame.y.invert((event.clientY - box.top) * scale);
        return { C_W: snap(Math.min(x2, Math.max(x1, x)), grain[0]), C_b: snap(Math.min(y2, Math.max(y1, y)), grain[1]) };
      };
      picture.addEventListener("pointerdown", event => { picture.setPointerCapture(event.pointerId); this.dragging = true; event.preventDefault(); point.focus({ preventScroll: true }); this.since = performance.now(); this.set(place(event)); });
      picture.addEventListener("pointermove", event => { if (this.dragging) { this.since = performance.now(); this.set(place(event)); } });
      for (const name of ["pointerup", "pointercancel"]) picture.addEventListener(name, () => { this.dragging = false; });
      point.addEventListener("keydown", event => {
        const size = event.shiftKey ? 10 : 1;
        const move = { ArrowRight: [grain[0], 0], ArrowLeft: [-grain[0], 0], ArrowUp: [0, grain[1]], ArrowDown: [0, -grain[1]] }[event.key];
        if (!move) return;
        event.preventDefault();
        const [x1, x2, y1, y2] = this.frame.limits;
        this.since = performance.now();
        this.set({ C_W: +Math.min(x2, Math.max(x1, this.settings.C_W + size * move[0])).toFixed(4), C_b: +Math.min(y2, Math.max(y1, this.settings.C_b + size * move[1])).toFixed(4) });
      });
    }

    movePoint() {
      const text = `C_W ${neft.short(this.settings.C_W, 4)}, C_b ${neft.short(this.settings.C_b, 4)}`;
      this.phaseWords();
      return this.frame ? neft.addPoint(this.frame, [this.settings.C_W, this.settings.C_b], text) : null;
    }

    phaseWords() {
      const found = this.phases, card = this.find("#view-phase");
      if (!found || !this.frame) return;
      const nearest = (axis, value) => d3.minIndex(axis, v => Math.abs(v - value));
      const i = nearest(found.C_b, this.settings.C_b) * found.C_W.length + nearest(found.C_W, this.settings.C_W);
      // The cell at a critical point has the phase of its own middle, which is beside the point.
      const at = found.points.some(p => Math.abs(p.C_W - this.settings.C_W) < 1e-3 && Math.abs(p.C_b - this.settings.C_b) < 1e-3);
      const name = at ? "critical" : found.names[found.phase[i]], xi = at ? null : found.xi[i];
      const says = { ordered: "inputs become alike", chaotic: "near inputs are driven apart", critical: "differences of inputs last", diverging: "signals grow without bound", unsettled: "signals leave the range that can be computed" }[name];
      const [x1, x2, y1, y2] = this.frame.limits, outside = this.settings.C_W < x1 || this.settings.C_W > x2 || this.settings.C_b < y1 || this.settings.C_b > y2;
      const where = outside ? "The network lies outside of the diagram, which knows nothing of its phase; the point stands at the edge."
        : `The point ${name === "critical" ? "is a critical one" : `lies in the ${name} phase`}: with depth ${says}` + (xi !== null && xi < 1e4 && found.phase[i] < 3 ? `, e-fold in about ${neft.short(xi, 2)} layers.` : ".");
      card.querySelector(".caption").textContent = `${found.fine === false ? "Coarse so far. " : ""}${where}` +
        (found.points.length ? " Stars are critical points." : "") + (this.frame.line ? " The white line is χ⊥ = 1." : "");
      const rows = found.names.map((one, code) => [one, neft.percent(found.phase.filter(p => p === code).length / found.phase.length), ""]);
      rows.push(...found.points.map(p => ["critical point", `C_W ${neft.short(p.C_W, 5)}`, `C_b ${neft.short(p.C_b, 5)}`]), ["this network", `C_W ${neft.short(this.settings.C_W, 5)}`, `C_b ${neft.short(this.settings.C_b, 5)}`]);
      this.table(card, ["phase or point", "share or C_W", "C_b"], rows);
    }

    // Every figure: its table, and buttons for its code, picture and numbers.
    tools(card) {
      const view = card.dataset.view;
      const button = (text, title, act, needs) => { const one = make("button", { type: "button", class: "tool", "data-needs": needs ?? false, "aria-label": `${text}: ${title} of ${card.querySelector("h2").textContent}` }, text); one.addEventListener("click", act); return one; };
      card.querySelector("header").append(make("div", { class: "tools" },
        button("Code", "Python, command line and address", () => this.code(view)),
        button("SVG", "Picture", () => this.save(`neft-${view}.svg`, neft.svgText(card.querySelector(".plot")), "image/svg+xml"), "picture"),
        // A file has the numbers of its tables alone, which are no result that neft.load reads.
        ...(this.facts.tables ? [] : [button("JSON", "Numbers", () => this.numbers(view), "numbers")])));
      const details = make("details", { class: "table" }, make("summary", {}, "As a table"), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table of ${card.querySelector("h2").textContent}` }, make("table")));
      card.querySelector(".caption").after(details);
    }

    table(card, head, rows) {
      // After the picture, for which somebody waits.
      clearTimeout(card.filling);
      card.filling = setTimeout(() => {
        const cell = value => make("td", {}, typeof value === "number" ? neft.short(value, 5) : value ?? "–");
        card.querySelector("details.table table").replaceChildren(make("thead", {}, make("tr", {}, ...head.map(text => make("th", { scope: "col" }, text)))),
          make("tbody", {}, ...rows.map(([first, ...rest]) => make("tr", {}, make("th", { scope: "row" }, typeof first === "number" ? neft.short(first, 4) : first), ...rest.map(cell)))));
      }, 30);
    }

    async code(view) {
      try {
        const found = await this.source.ask("code", view === "regression" ? { ...this.settings, ...this.regression.until } : this.settings);
        this.find("#code-python").textContent = found[view].python;
        this.find("#code-shell").textContent = found[view].shell;
        this.find("#code-address").textContent = this.facts.mode === "widget" ? this.address(view) : location.href.split("#")[0] + this.address(view);
        this.find("#code").showModal();
      } catch (error) { this.failed(error); }
    }

    async numbers(view) {
      try { this.save(`neft-${view}.json`, JSON.stringify(await this.source.ask(`numbers/${view}`, this.settings), null, 1), "application/json"); }
      catch (error) { this.failed(error, view === "regression" ? "#e-job" : "#e-draw"); }
    }

    save(name, text, type) {
      const link = make("a", { download: name, href: URL.createObjectURL(new Blob([text], { type })) });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    }
  }
  neft.Page = Page;
})();
