// Numbers that were computed in advance: for a page without a server, such as a file for a lecture.
"use strict";
(() => {
  const neft = (globalThis.neftExplore ??= {});

  neft.Tables = class {
    constructor(tables) {
      this.tables = tables;
      const bytes = Uint8Array.from(atob(tables.numbers), letter => letter.charCodeAt(0));
      this.numbers = new Float32Array(bytes.buffer);
    }

    cell(settings) {
      const { activations, C_b, C_W, names, depth } = this.tables;
      const nearest = (axis, value) => axis.reduce((best, one, i) => Math.abs(one - value) < Math.abs(axis[best] - value) ? i : best, 0);
      const i = (activations.indexOf(settings.activation) * C_b.length + nearest(C_b, settings.C_b)) * C_W.length + nearest(C_W, settings.C_W);
      const tensors = {};
      names.forEach((name, k) => {
        const start = (i * names.length + k) * depth, row = [...this.numbers.subarray(start, start + settings.depth)];
        if (row.every(Number.isFinite)) tensors[name] = row;
        else if (name === "K") throw new neft.Sentence({ error: `Signals die or overflow before layer ${settings.depth}: move the point, or take fewer layers.` });
      });
      return tensors;
    }

    async ask(name, settings) {
      const of = this.tables.activations.indexOf(settings.activation);
      if (of < 0) throw new neft.Sentence({ fields: { activation: `activation must be one of ${this.tables.activations.join(", ")} in this file.` } });
      if (settings.depth > this.tables.depth) throw new neft.Sentence({ fields: { depth: `depth is ${settings.depth}, but this file holds ${this.tables.depth} layers.` } });
      if (name === "flow") return { tensors: this.cell(settings), absent: {}, widths: [], notes: [] };
      if (name === "phases") return this.tables.phases[of];
      if (name === "regression") return this.tables.regression[of];
      if (name === "words") return { interpretation: { summary: "" }, advice: this.tables.advice[of] };
      if (name === "code") return this.code(of, settings);
      return { settings, ...(name === "numbers/phase" ? this.tables.phases[of] : name === "numbers/regression" ? this.tables.regression[of] : { tensors: this.cell(settings) }) };
    }

    code(of, settings) {
      const marks = this.tables.marks, fill = text => {
        for (const [name, mark] of Object.entries(marks)) text = text.replaceAll(mark, name === "before" ? settings.depth - 1 : settings[name]);
        return text;
      };
      return Object.fromEntries(Object.entries(this.tables.code[of]).map(([view, one]) => [view, { python: fill(one.python), shell: fill(one.shell) }]));
    }
  };
})();
