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
      const i = (activations.indexOf(settings.activation) * C_b.length + C_b.indexOf(settings.C_b)) * C_W.length + C_W.indexOf(settings.C_W);
      const tensors = {};
      names.forEach((name, k) => {
        const start = (i * names.length + k) * depth, row = [...this.numbers.subarray(start, start + settings.depth)];
        if (row.every(Number.isFinite)) tensors[name] = row;
        else if (name === "K") throw new neft.Sentence({ error: `Signals die or overflow before layer ${settings.depth}: move the point, or take fewer layers.` });
      });
      return tensors;
    }

    // What is typed, or stands in an address that a server's page made.
    check(settings) {
      const { activations, depth, widest, usual } = this.tables, wrong = {};
      if (!activations.includes(settings.activation)) wrong.activation = `activation is ${settings.activation}, but must be one of ${activations.join(", ")} in this file.`;
      for (const [name, most] of [["depth", depth], ["width", widest]]) {
        const value = settings[name];
        if (!Number.isInteger(value)) wrong[name] = `${name} is ${value}, but must be a whole number.`;
        else if (value < 2) wrong[name] = `${name} is ${value}, but must be at least 2.`;
        else if (value > most) wrong[name] = `${name} is ${value}, but must be at most ${most} in this file.`;
      }
      for (const name of ["C_W", "C_b"]) {
        const axis = this.tables[name], value = settings[name];
        if (!(value >= axis[0] && value <= axis.at(-1))) wrong[name] = `${name} is ${value}, but must be from ${axis[0]} to ${axis.at(-1)} in this file.`;
      }
      if (Object.keys(wrong).length) throw new neft.Sentence({ fields: wrong });
      const others = Object.entries(usual).filter(([name, value]) => JSON.stringify(settings[name]) !== JSON.stringify(value)).map(([name]) => name);
      if (others.length) throw new neft.Sentence({ error: `The address sets ${others.join(", ")}, but this file holds perceptrons with rates of 1 and its own points: only the page of neft explore has others.` });
    }

    // The settings of the nearest networks that the file holds, and a sentence for each field that says another number.
    held(settings) {
      const near = { ...settings }, beside = {};
      for (const name of ["C_W", "C_b"]) {
        near[name] = this.tables[name].reduce((best, one) => Math.abs(one - settings[name]) < Math.abs(best - settings[name]) ? one : best);
        if (Math.abs(near[name] - settings[name]) > 1e-6) beside[name] = `${name} is ${settings[name]}: this file shows ${near[name]}, the nearest that it holds.`;
      }
      return { near, beside };
    }

    async ask(name, settings) {
      this.check(settings);
      const of = this.tables.activations.indexOf(settings.activation);
      const { near, beside } = this.held(settings);
      if (name === "flow") return { tensors: this.cell(near), absent: {}, widths: [], notes: [], beside };
      if (name === "phases") return this.tables.phases[of];
      if (name === "regression") return this.tables.regression[of];
      if (name === "words") return { interpretation: { summary: "" }, advice: this.tables.advice[of] };
      return this.code(of, near);
    }

    code(of, settings) {
      const marks = this.tables.marks, fill = text => {
        for (const [name, mark] of Object.entries(marks)) text = text.replaceAll(mark, name === "before" ? settings.depth - 1 : settings[name]);
        return text;
      };
      const { timed, ...code } = this.tables.code[of];
      if (settings.until !== undefined) code.regression = timed;
      return Object.fromEntries(Object.entries(code).map(([view, one]) => [view, { python: fill(one.python), shell: fill(one.shell) }]));
    }
  };
})();
