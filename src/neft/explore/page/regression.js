// The second tab: points on a line, and the functions that networks trained on them are.
"use strict";
(() => {
  const neft = (globalThis.neftExplore ??= {});

  neft.Regression = class {
    constructor(page) {
      Object.assign(this, { page, infinite: null, finite: null, trained: null, index: page.moment });
      const slider = page.find("#f-time"), points = page.find("#f-points");
      slider.addEventListener("input", () => { this.following = false; this.index = +slider.value; page.write(); this.show(); });
      let waiting = 0;
      points.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => {
          const rows = points.value.split("\n").map(line => line.trim()).filter(Boolean).map(line => line.split(/[\s,;]+/).map(Number));
          if (!rows.length || rows.some(row => row.length !== 2 || !row.every(Number.isFinite))) page.wrong({ points: "Points must be two numbers a line, such as 0.5, -1." });
          else page.set({ points: rows }, points);
        }, 400);
      });
      page.find("#finite-limit").textContent = `up to ${page.facts.limits.finite} layers, in ten seconds; the Code button has what computes deeper ones`;
      page.find("#finite").addEventListener("click", () => this.start("finite"));
      page.find("#train").addEventListener("click", () => this.start("train"));
      page.find("#job-stop").addEventListener("click", () => this.end());
      page.find("#trusted").addEventListener("click", () => { page.set(this.better); this.start("finite"); });
    }

    get key() { const { draws, seed, ...rest } = this.page.settings; return JSON.stringify(rest); }

    // Where corrections are too large to be trusted: a network near this one, or a shallow one, for which they are not.
    offer() {
      const { depth } = this.page.settings, needs = this.finite?.needs, shallow = { depth: 3, width: 64 };
      this.better = !needs ? null : needs <= 256 ? { width: needs } : depth > shallow.depth ? shallow : needs <= this.page.facts.limits.width[1] ? { width: needs } : null;
      const button = this.page.find("#trusted");
      button.hidden = !this.better;
      if (this.better) button.textContent = `Show ${this.better.depth ?? depth} layers of width ${this.better.width} instead`;
    }

    end() { for (const slot of ["finite", "train"]) this.page.stop(slot); this.running(false); }

    running(on) { for (const [id, hidden] of [["#job-stop", !on], ["#job-progress", !on]]) this.page.find(id).hidden = hidden; }

    async changed() {
      const page = this.page, box = page.find("#f-points");
      if (document.activeElement !== box) box.value = page.settings.points.map(pair => pair.join(", ")).join("\n");
      if (page.tab !== "train" || this.asked === this.key) return;
      const key = (this.asked = this.key);
      this.end();
      this.finite = this.trained = null;
      page.find("#view-regression").classList.add("busy");
      if (!this.infinite) page.find("#view-regression .caption").textContent = "Computing…";
      // While a slider moves nothing is asked.
      await new Promise(after => setTimeout(after, this.infinite ? 8 : 0));
      if (key !== this.asked) return;
      try {
        const found = await page.source.ask("regression", page.settings);
        if (key !== this.asked) return;
        this.infinite = found;
        page.restored(["regression"]);
        this.at(this.index);
      } catch (error) {
        if (key !== this.asked) return;
        this.asked = null;
        page.failed(error, "#e-job");
        if (!error.lost) { this.infinite = null; page.missing(page.find("#view-regression"), "There is no answer for these settings."); }
      }
      finally { if (key === this.asked || this.asked === null) page.find("#view-regression").classList.remove("busy"); }
    }

    // A moment of the slider, or the last one where none is named.
    at(moment) {
      this.index = moment; this.following = false;
      if (!this.infinite) return;
      const last = this.infinite.times.length - 1, slider = this.page.find("#f-time");
      this.index = Math.min(moment ?? last, last);
      slider.max = last;
      slider.value = this.index;
      this.show();
    }

    // The same moment as a time, for a program; the end of training is what it takes without one.
    get until() {
      const time = this.infinite?.times[this.index] ?? null;
      return time === null ? {} : { until: time };
    }

    get working() { return ["finite", "train"].some(slot => slot in this.page.jobs); }

    async start(name) {
      const page = this.page, key = this.key;
      page.clean();
      page.find("#job-progress").removeAttribute("value");
      try {
        const running = page.run(name, name, structuredClone(page.settings), record => {
          page.find("#job-progress").value = record.progress;
          if (record.found && key === this.key) { this.trained = record.found; this.follow(); this.show(); }
        });
        this.following = name === "train" && this.infinite?.times[this.index] === null;
        this.running(true);
        const found = await running;
        if (found && key === this.key) { this[name === "train" ? "trained" : "finite"] = found; this.running(this.working); this.show(); }
      } catch (error) { if (error.name !== "AbortError") { this.running(this.working); page.failed(error, "#e-job"); } }
    }

    // Who looks at the end of training, which simulation does not reach, sees it go as far as it does.
    follow() {
      if (!this.following) return;
      this.index = this.trained.moments.findLastIndex(Boolean);
      this.page.find("#f-time").value = this.index;
    }

    show() {
      const { page, infinite } = this;
      if (!infinite || page.tab !== "train") return;
      const card = page.find("#view-regression"), i = this.index, time = infinite.times[i];
      const text = i === 0 ? "0, before training" : time === null ? "∞, to the end" : neft.short(time);
      page.find("#time").textContent = `t = ${text}`;
      page.find("#f-time").setAttribute("aria-valuetext", text);
      this.frame = neft.drawRegression(card.querySelector(".plot"), { ...this, points: page.settings.points, index: i }, "Functions of trained networks; their numbers are in the table below.");
      this.frame.picture.addEventListener("click", event => this.click(event));
      let words = `Dashed: the mean of infinitely wide networks at time ${text}, with two standard deviations over initializations.`;
      if (page.facts.tables) words += "";
      else if (this.finite) words += ` Blue: networks of width ${page.settings.width}, to order 1/width.` + this.finite.notes.map(note => ` ${note[0].toUpperCase()}${note.slice(1)}`).join("");
      else words += ` What this width changes takes some seconds: ask for it above${page.settings.depth > page.facts.limits.finite ? ` (networks of at most ${page.facts.limits.finite} layers)` : ""}.`;
      if (this.trained) words += this.trained.moments[i] ? ` Green: ${this.trained.draws} networks trained by gradient flow, six of them as thin lines.`
        : ` The ${this.trained.draws} trained networks are shown up to t = ${neft.short(this.trained.times[this.trained.moments.findLastIndex(Boolean)])}: the end of training itself is left to theory.`;
      words += infinite.notes.map(note => ` ${note[0].toUpperCase()}${note.slice(1)}`).join("");
      card.querySelector(".caption").textContent = words;
      this.offer();
      const near = x => d3.minIndex(infinite.x, v => Math.abs(v - x));
      const places = this.finite?.x ?? d3.range(-2, 2.01, 0.2).map(x => +x.toFixed(2));
      page.table(card, ["x", "infinite width", "± spread", "this width", "± spread", "trained", "± spread"], places.map((x, k) => [x, infinite.mean[i][near(x)], infinite.std[i][near(x)],
        this.finite ? this.finite.mean[i][k] : null, this.finite ? this.finite.std[i][k] : null, this.trained?.moments?.[i]?.mean[k], this.trained?.moments?.[i]?.std[k]]));
    }

    click(event) {
      if (this.page.facts.tables) return;
      const page = this.page, box = this.frame.picture.getBoundingClientRect(), scale = +this.frame.picture.getAttribute("width") / box.width;
      const [px, py] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
      const near = page.settings.points.findIndex(([x, y]) => Math.hypot(this.frame.x.apply(x) - px, this.frame.y.apply(y) - py) < 11);
      if (near >= 0 && page.settings.points.length > 1) page.set({ points: page.settings.points.filter((_, i) => i !== near) });
      else if (near < 0) {
        const x = this.frame.x.invert(px), y = this.frame.y.invert(py);
        if (Math.abs(x) > this.frame.x.domain[1] + 0.05) return;
        if (page.settings.points.length >= page.facts.limits.points) page.wrong({ points: `There may be ${page.facts.limits.points} points: remove one first.` });
        else page.set({ points: [...page.settings.points, [+x.toFixed(2), +y.toFixed(2)]] });
      }
    }
  };
})();
