// Draws the traces in #data, with the functions of shared.js.
"use strict";
(() => {
  const SLOWER = 10; // playing, one measured millisecond lasts so many

  // The source as text, subwords joined; where it was decoded without a tokenizer, its tokens.
  function sourceText(sentence) {
    if (sentence.text !== null) return sentence.text;
    const words = sentence.source.filter((word) => word !== "</s>");
    return words.some((word) => word.startsWith("\u2581")) ?
      words.join("").replaceAll("\u2581", " ").trim() : words.join(" ").replaceAll("@@ ", "");
  }

  function emitted(part) {
    const boxes = [];
    part.draft.forEach((word, i) => {
      const verdict = part.verdicts[i];
      if (verdict !== "rejected" && verdict !== "unseen") boxes.push(token(word, verdict));
    });
    return boxes.concat(undrafted(part));
  }

  function timeBar(part, longest) {
    const rest = Math.max(0, part.ms - part.drafter_ms - part.verifier_ms);
    const track = make("span", { class: "track", "aria-hidden": "true" });
    for (const [name, ms] of [["drafter", part.drafter_ms], ["verifier", part.verifier_ms],
      ["rest", rest]]) {
      const piece = make("span", { class: "t-" + name });
      piece.style.width = (longest > 0 ? 100 * ms / longest : 0) + "%";
      if (ms > 0) track.append(piece);
    }
    let words = part.ms.toFixed(2) + " ms (drafter " + part.drafter_ms.toFixed(2) +
      ", verifier " + part.verifier_ms.toFixed(2) + ")";
    if (part.live !== undefined) words += ", " + part.live + " hypotheses go on";
    if (part.steps) words += ", " + part.steps + " small steps";
    if (part.rows > 1) words += ", shared by " + part.rows + " sentences";
    return make("div", { class: "time" }, track, make("span", {}, words));
  }

  const state = { sentence: 0, byTime: false, at: 0, timer: null };
  const views = [];
  const source = make("p", { class: "source" });
  const columns = make("div", { class: "columns" });
  const live = make("p", { class: "quiet", role: "status", "aria-live": "polite" });
  const slider = make("input", { type: "range", min: "0", id: "at", oninput: () => {
    stop();
    show(Number(slider.value));
  } });
  const select = make("select", { id: "sentence", onchange: () => open(select.selectedIndex) });
  data.sentences.forEach((sentence) => {
    const words = sourceText(sentence);
    const short = words.length > 60 ? words.slice(0, 60) + "\u2026" : words;
    select.append(make("option", {}, sentence.id + ": " + short));
  });
  const order = make("select", { id: "order", onchange: () => {
    state.byTime = order.value === "time";
    open(state.sentence);
  } }, make("option", { value: "iteration" }, "iteration"),
  make("option", { value: "time" }, "measured time"));
  const play = make("button", { type: "button", onclick: () => toggle() }, "Play");

  function iterations() {
    return data.sentences[state.sentence].runs.map((run) => run.iterations);
  }

  // How far each system has come at the slider's place.
  function reached(rounds, at) {
    if (!state.byTime) return Math.min(at, rounds.length);
    let spent = 0;
    let count = 0;
    while (count < rounds.length && spent + rounds[count].ms <= at + 1e-6) {
      spent += rounds[count].ms;
      count += 1;
    }
    return count;
  }

  function last() {
    const ends = iterations().map((rounds) => state.byTime ?
      rounds.reduce((sum, part) => sum + part.ms, 0) : rounds.length);
    return Math.max(0, ...ends);
  }

  function open(number) {
    stop();
    state.sentence = Math.max(0, Math.min(number, data.sentences.length - 1));
    select.selectedIndex = state.sentence;
    const sentence = data.sentences[state.sentence];
    source.replaceChildren(make("span", { class: "quiet" }, "Source  "), sourceText(sentence));
    views.length = 0;
    columns.replaceChildren();
    const longest = Math.max(0, ...iterations().flat().map((part) => part.ms));
    for (const run of sentence.runs) columns.append(column(run, longest));
    slider.max = String(last());
    slider.step = state.byTime ? "any" : "1";
    show(state.byTime ? last() : Math.min(1, last()));
  }

  function column(run, longest) {
    const system = data.systems[run.system];
    const rounds = run.iterations;
    const total = rounds.reduce((sum, part) => sum + part.ms, 0);
    const each = rounds.length ? run.output.length / rounds.length : 0;
    let facts = rounds.length + (rounds.length === 1 ? " iteration, " : " iterations, ") + each.toFixed(2) + " tokens each, " +
      total.toFixed(1) + " ms";
    if (run.score !== null) facts += ", score " + run.score.toFixed(4);
    const output = make("div", { class: "output" });
    const list = make("ol", {});
    const items = rounds.map((part, i) => {
      const item = make("li", {},
        make("span", { class: "number" }, String(i + 1)), ...judged(part),
        timeBar(part, longest), ...beamed(part));
      list.append(item);
      return item;
    });
    const final = make("p", { class: "quiet" });
    views.push({ system, rounds, output, items, final, text: run.text });
    return make("section", { class: "system", "aria-label": system.name },
      make("h2", {}, system.name), make("div", { class: "quiet" }, system.settings),
      make("div", { class: "quiet" }, facts),
      make("h3", {}, "Output so far"), output, final,
      make("h3", {}, "Iterations"), list);
  }

  function show(at) {
    state.at = Math.max(0, Math.min(at, last()));
    slider.value = String(state.at);
    const states = [];
    for (const view of views) {
      const count = reached(view.rounds, state.at);
      view.items.forEach((item, i) => {
        item.className = i >= count ? "later" : i === count - 1 ? "now" : "";
        if (i === count - 1) item.setAttribute("aria-current", "step");
        else item.removeAttribute("aria-current");
      });
      view.output.replaceChildren(...view.rounds.slice(0, count).flatMap(emitted));
      const done = count === view.rounds.length;
      view.final.textContent = done && view.text !== null ? view.text : "";
      states.push(view.system.name + " " + (done ? "done after " : "iteration ") + count +
        (done ? "" : " of " + view.rounds.length));
    }
    const place = state.byTime ? state.at.toFixed(1) + " of " + last().toFixed(1) + " ms" :
      "iteration " + state.at + " of " + last();
    slider.setAttribute("aria-valuetext", place);
    live.textContent = place + ": " + states.join("; ");
  }

  // To the next or previous place where something happens.
  function step(by) {
    stop();
    if (!state.byTime) {
      show(state.at + by);
      return;
    }
    const moments = [0];
    for (const rounds of iterations()) {
      let spent = 0;
      for (const part of rounds) moments.push(spent += part.ms);
    }
    moments.sort((a, b) => a - b);
    const later = moments.filter((t) => t > state.at + 1e-6);
    const earlier = moments.filter((t) => t < state.at - 1e-6);
    if (by > 0 && later.length) show(later[0]);
    if (by < 0 && earlier.length) show(earlier[earlier.length - 1]);
  }

  function stop() {
    if (state.timer !== null) clearInterval(state.timer);
    state.timer = null;
    play.textContent = "Play";
  }

  // Systems race: each iteration takes as long as it was measured, SLOWER times.
  function toggle() {
    if (state.timer !== null) {
      stop();
      return;
    }
    if (!state.byTime) {
      state.byTime = true;
      order.value = "time";
      open(state.sentence);
      show(0);
    } else if (state.at >= last()) {
      show(0);
    }
    play.textContent = "Pause";
    const begun = performance.now() - state.at * SLOWER;
    state.timer = setInterval(() => {
      show((performance.now() - begun) / SLOWER);
      if (state.at >= last()) stop();
    }, 40);
  }

  const KEYS = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1),
    Home: () => { stop(); show(0); }, End: () => { stop(); show(last()); },
    n: () => open(state.sentence + 1), p: () => open(state.sentence - 1), " ": () => toggle(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const tag = event.target.tagName;
    // Leave the controls their own keys.
    if (tag === "SELECT" || tag === "INPUT" || (tag === "BUTTON" && event.key === " ")) return;
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  function button(words, act) {
    return make("button", { type: "button", onclick: act }, words);
  }
  const beams = data.sentences.some((sentence) => sentence.runs.some((run) =>
    run.iterations.some((part) => part.agreed)));
  const legend = make("div", { class: "legend", role: "note", "aria-label": "Legend" });
  legend.append(...explained(Object.keys(MARKS), beams));
  const left = data.total - data.sentences.length;
  const shown = data.sentences.length + (left > 0 ? " of " + data.total : "") + " sentences";
  document.getElementById("app").append(
    make("div", { class: "bar" },
      make("label", { for: "sentence" }, "Sentence", select),
      button("Previous", () => open(state.sentence - 1)),
      button("Next", () => open(state.sentence + 1)),
      make("label", { for: "order" }, "Step by", order),
      button("Back", () => step(-1)), button("Step", () => step(1)), play,
      make("label", { class: "wide", for: "at" }, make("span", { class: "hidden" }, "Place"),
        slider)),
    live, legend, source, columns,
    make("p", { class: "quiet" }, shown + ". Keys: ",
      make("kbd", {}, "\u2190"), " ", make("kbd", {}, "\u2192"), " step, ",
      make("kbd", {}, "Home"), " ", make("kbd", {}, "End"), " begin and end, ",
      make("kbd", {}, "n"), " ", make("kbd", {}, "p"), " next and previous sentence, ",
      make("kbd", {}, "Space"), " play in measured time, " + SLOWER + " times slower. " +
      "Times: bars are striped for the drafter, filled for the verifier, empty for the rest."));
  open(0);
})();
