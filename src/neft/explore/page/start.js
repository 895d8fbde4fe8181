// Where numbers come from on a server's page, and the start of it.
"use strict";
(() => {
  const neft = (globalThis.neftExplore ??= {});

  neft.Server = class {
    constructor(token) {
      Object.assign(this, { token, gone: false, onLost() {}, onBack() {} });
      setInterval(() => { if (!document.hidden && !this.gone) this.alive(); }, 4000);
    }

    async post(path, record, signal) {
      let answer;
      try {
        answer = await fetch(path, { method: "POST", signal, headers: { "content-type": "application/json", "x-neft-token": this.token }, body: JSON.stringify(record) });
      } catch (error) {
        if (error.name === "AbortError") throw error;
        this.lost();
        throw Object.assign(error, { lost: true });
      }
      if (answer.status === 403) this.onLost("This address does not carry the server’s token: open the address that neft explore printed.");
      if (!answer.ok) throw new neft.Sentence(await this.record(answer));
      return answer;
    }

    // What is no record comes from something that went wrong on the way.
    async record(answer) {
      try { return JSON.parse(await answer.text()); }
      catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        return { error: `The server gave no answer that can be read (status ${answer.status}): start neft explore again.` };
      }
    }

    async ask(name, settings) {
      const record = await this.record(await this.post(`/api/${name}`, settings));
      if (record.fields || record.error) throw new neft.Sentence(record);
      return record;
    }

    async run(name, settings, heard, signal) {
      const answer = await this.post("/api/run", { name, settings }, signal);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      try {
        for (;;) {
          const { value, done } = await reader.read();
          if (done) throw Object.assign(new Error("the connection ended"), { lost: true });
          rest += value;
          const lines = rest.split("\n");
          rest = lines.pop();
          for (const line of lines) {
            const record = JSON.parse(line);
            if ("progress" in record) heard(record);
            else if ("result" in record) return record.result;
            else throw new neft.Sentence(record);
          }
        }
      } catch (error) {
        if (error instanceof TypeError || error.lost) { this.alive(); throw Object.assign(error, { lost: true }); }
        throw error;
      }
    }

    async alive() {
      try { await fetch("/alive", { cache: "no-store" }); return true; } catch { this.lost(); return false; }
    }

    lost() {
      if (this.gone) return;
      this.gone = true;
      this.onLost("The server does not answer: it was ended, or the machine sleeps. Start it again on the same port, and this page goes on by itself.");
      const again = async () => {
        try { await fetch("/alive", { cache: "no-store" }); this.gone = false; this.onBack(); } catch { setTimeout(again, 1000); }
      };
      setTimeout(again, 1000);
    }
  };

  const facts = document.getElementById("neft-facts");
  if (facts) {
    const known = JSON.parse(facts.content.textContent);
    const token = new URLSearchParams(location.search).get("token") ?? "";
    const source = known.mode === "server" ? new neft.Server(token) : new neft.Tables(known.tables);
    neft.page = new neft.Page(document.getElementById("neft"), known, source);
    if (neft.page.view) document.getElementById(`view-${CSS.escape(neft.page.view)}`)?.scrollIntoView();
  }
})();
