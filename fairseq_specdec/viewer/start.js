// The server's page: translates, and races strategies, whose traces the viewer shows.
(() => {
  const text = make("textarea", { id: "text", rows: "2", maxlength: String(data.characters),
    spellcheck: "false" });
  const pair = make("select", { id: "pair", onchange: () => choose() });
  data.pairs.forEach((each) => pair.append(make("option", {}, each.source + " to " + each.target)));
  const beam = make("select", { id: "beam" });
  for (let n = 1; n <= data.widest; n += 1) beam.append(make("option", {}, String(n)));
  const key = make("input", { id: "key", type: "password", autocomplete: "off" });
  const strategies = make("fieldset", { class: "line", id: "strategies" });
  const stock = make("input", { id: "stock", type: "checkbox" });
  const race = make("button", { id: "race", type: "submit" }, "Race");
  const stopButton = button("Stop", () => running && running.abort());
  const status = make("p", { id: "status", role: "status", "aria-live": "polite" });
  const problem = make("p", { id: "problem", role: "alert", hidden: "" });
  const translated = make("p", { class: "source", id: "translated", hidden: "" });
  const results = make("div", { class: "scroll", tabindex: "0", role: "region",
    "aria-label": "Times", hidden: "" });
  const view = viewer();
  view.box.hidden = true;
  let running = null; // AbortController of the request

  const chosen = () => data.pairs[pair.selectedIndex];

  function choose() {
    const each = chosen();
    strategies.replaceChildren(make("legend", {}, "Strategies"), ...each.strategies.map((name) => {
      const box = make("input", { type: "checkbox", value: name });
      box.checked = true;
      return make("label", {}, box, name);
    }));
    if (each.stock) strategies.append(make("label", { for: "stock" }, stock, "fairseq itself, last"));
    stock.checked = each.stock;
  }

  function complain(words) {
    problem.textContent = words;
    problem.hidden = words === "";
  }

  // Asks the server; `read` takes its answer. One request at a time.
  async function ask(path, body, read) {
    if (running) return;
    running = new AbortController();
    document.body.setAttribute("aria-busy", "true");
    complain("");
    const headers = { "Content-Type": "application/json" };
    if (key.value) headers.Authorization = "Bearer " + key.value;
    try {
      const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body),
        signal: running.signal });
      if (response.ok) await read(response);
      else complain((await response.json()).error);
    } catch (error) {
      if (error.name === "AbortError") status.textContent = "Stopped.";
      else complain("The server does not answer (" + error.message + "): is it running?");
    }
    running = null;
    document.body.setAttribute("aria-busy", "false");
    document.body.dataset.answers = String(Number(document.body.dataset.answers || 0) + 1);
  }

  function translate() {
    const { source, target } = chosen();
    return ask("/translate", { q: text.value, source, target }, async (response) => {
      translated.textContent = (await response.json()).translatedText;
      translated.hidden = false;
      status.textContent = "Translated.";
    });
  }

  function run() {
    const { source, target } = chosen();
    const names = [...strategies.querySelectorAll("input:checked")].filter((box) => box !== stock)
      .map((box) => box.value);
    const asked = { text: text.value, source, target, strategies: names,
      beam: beam.selectedIndex + 1, stock: stock.checked };
    const runs = [];
    results.hidden = true;
    status.textContent = "Asked: one race runs at a time.";
    return ask("/race", asked, async (response) => {
      const events = {
        go: (event) => {
          runs.push({ name: event.name, iterations: [], output_text: "" });
          status.textContent = event.name + " decodes.";
          view.box.hidden = false;
          view.open({ source: asked.text, runs });
        },
        block: (event) => {
          runs[runs.length - 1].iterations.push(event.iteration);
          view.draw();
        },
        timed: (event) => {
          status.textContent = "Timing: " + event.name + ", run " + event.turn + ", " +
            event.ms.toFixed(1) + " ms.";
        },
        end: (event) => {
          runs.forEach((each) => { each.output_text = event.runs[each.name].text; });
          view.draw();
          table(event.runs, runs);
        },
        error: (event) => complain(event.message),
      };
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          const event = JSON.parse(line);
          events[event.event](event);
        }
      }
    });
  }

  // Times beside each other.
  function table(found, runs) {
    const base = found.greedy;
    const stocks = found["fairseq itself"];
    const times = (other, ms) => other ? (other.ms / ms).toFixed(2) + "\u00d7" : "\u2013";
    const rows = Object.entries(found).map(([name, each]) => {
      const rounds = (runs.find((one) => one.name === name) || { iterations: [] }).iterations;
      const drafted = rounds.reduce((sum, part) => sum + part.draft.length, 0);
      const kept = rounds.reduce((sum, part) => sum +
        part.verdicts.filter((one) => one !== "rejected" && one !== "unseen").length, 0);
      return [name, each.ms.toFixed(1) + " ms", times(base, each.ms), times(stocks, each.ms),
        rounds.length || "\u2013", each.tokens,
        rounds.length ? (each.tokens / rounds.length).toFixed(2) : "\u2013",
        drafted ? Math.round(100 * kept / drafted) + " %" : "\u2013",
        !base || each === base ? "\u2013" : each.text === base.text ? "as greedy" : "differs from greedy"];
    });
    const head = ["Strategy", "Time", "Over greedy", "Over fairseq", "Iterations", "Tokens",
      "Mean accepted tokens", "Drafts accepted", "Text"];
    results.replaceChildren(make("table", {},
      make("caption", {}, "Time: median of the runs from text to text, in turns, with nothing shown " +
        "meanwhile; fairseq itself runs last. Mean accepted tokens: tokens an iteration adds, the " +
        "verifier's own included."),
      make("thead", {}, make("tr", {}, ...head.map((one) => make("th", { scope: "col" }, one)))),
      make("tbody", { id: "rows" }, ...rows.map(([name, ...cells]) => make("tr", {},
        make("th", { scope: "row" }, name),
        ...cells.map((cell, i) => make("td", { "data-label": head[i + 1] }, String(cell))))))));
    results.hidden = false;
    const [first, ...slower] = Object.entries(found).sort((a, b) => a[1].ms - b[1].ms);
    status.textContent = "Done. " + (slower.length ? "Fastest: " : "") + first[0] + ", " +
      first[1].ms.toFixed(1) + " ms.";
  }

  document.getElementById("app").append(
    make("form", { onsubmit: (event) => { event.preventDefault(); run(); } },
      make("label", { for: "text" }, "Text"), text, strategies,
      make("div", { class: "line" },
        ...(data.pairs.length > 1 ? [make("label", { for: "pair" }, "Languages", pair)] : []),
        make("label", { for: "beam" }, "Beam of the race", beam),
        ...(data.keyed ? [make("label", { for: "key" }, "Token", key)] : []),
        button("Translate", translate), race, stopButton,
        make("span", { class: "quiet" }, make("kbd", {}, "Ctrl"), " ", make("kbd", {}, "Enter"),
          " race, ", make("kbd", {}, "Esc"), " stop"))),
    status, problem, translated, results, view.box);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && running) running.abort();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });
  choose();
  // Other sites can send a browser here with any address: it fills in the text and starts nothing.
  const given = new URLSearchParams(location.search).get("text");
  text.value = (given || "").slice(0, data.characters);
  text.focus();
})();
