// Where numbers come from in a notebook: messages to the process that made the widget.
"use strict";
(() => {
  const neft = (globalThis.neftExplore ??= {});

  neft.Messages = class {
    constructor(model) {
      Object.assign(this, { model, waiting: new Map(), count: 0 });
      model.on("msg:custom", message => this.waiting.get(message.mark)?.(message));
    }

    ask(name, settings) { return this.send("ask", name, settings, () => {}); }

    run(name, settings, heard, signal) { return this.send("run", name, settings, heard, signal); }

    send(kind, name, settings, heard, signal) {
      const mark = ++this.count;
      return new Promise((found, failed) => {
        const done = () => this.waiting.delete(mark);
        signal?.addEventListener("abort", () => { done(); this.model.send({ kind: "stop", mark }); failed(new DOMException("stopped", "AbortError")); });
        this.waiting.set(mark, message => {
          if ("progress" in message) return heard(message);
          done();
          return "result" in message ? found(message.result) : failed(new neft.Sentence(message));
        });
        this.model.send({ kind, mark, name, settings });
      });
    }
  };

  neft.render = ({ model, el }) => {
    const facts = model.get("facts"), root = document.createElement("div");
    root.id = "neft";
    // Markup that came with the package, and nothing that anybody typed.
    root.innerHTML = facts.body;
    el.append(root);
    const page = new neft.Page(root, facts, new neft.Messages(model));
    return () => { for (const slot of Object.keys(page.jobs)) page.stop(slot); };
  };
})();
