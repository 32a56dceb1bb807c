// Draws traces: several strategies side by side, block by block. Text from the corpus or the
// visitor only ever becomes text nodes and attributes.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const MARKS = { own: "+", relaxed: "~", drawn: "%", rejected: "\u00d7", unseen: "\u00b7" };
// Tokens that are not drafted.
const OTHERS = {
  verifier: [">", "the verifier's own token"],
  agreed: ["=", "beam search: in all hypotheses (at the end: in the best)"],
};
const SAID = {
  own: "accepted", relaxed: "accepted, relaxed", drawn: "accepted, sampled",
  rejected: "rejected", unseen: "not judged", verifier: "verifier's own",
  agreed: "in all hypotheses",
};
const SLOWER = 10; // playing, one measured millisecond lasts so many

function make(tag, settings, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(settings || {})) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function button(words, act) {
  return make("button", { type: "button", onclick: act }, words);
}

function plural(number, word) {
  return number + " " + word + (number === 1 ? "" : "s");
}

function token(word, kind, other) {
  const [mark, meaning] = OTHERS[kind] || [MARKS[kind], data.verdicts[kind]];
  const box = make("span", { class: "token " + kind, title: meaning },
    make("span", { class: "mark", "aria-hidden": "true" }, mark),
    make("span", { class: "word" }, word));
  if (other !== undefined) {
    box.append(make("span", { class: "other" }, " (" + other + ")"));
    box.title += "; the verifier's choice: " + other;
  }
  box.append(make("span", { class: "hidden" }, " (" + SAID[kind] + ") "));
  return box;
}

// The verifier's own token; in beam search, the tokens that all hypotheses now have.
function undrafted(part) {
  if (part.agreed) return part.agreed.map((word) => token(word, "agreed"));
  return part.own === null ? [] : [token(part.own, "verifier")];
}

// An iteration's draft with its verdicts, and the verifier's own token.
function judged(part) {
  const boxes = part.draft.map((word, i) => {
    const verdict = part.verdicts[i];
    const other = verdict === "relaxed" || verdict === "drawn" ? part.choices[i] : undefined;
    return token(word, verdict, other);
  });
  return boxes.concat(undrafted(part));
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
  if (part.steps) words += ", " + part.steps + " small steps";
  if (part.rows > 1) words += ", shared by " + part.rows + " sentences";
  return make("div", { class: "time" }, track, make("span", {}, words));
}

// A viewer of a sentence at a time: {source, runs: [{name, settings, score, output, output_text,
// iterations}]}. `controls`: what else stands in its bar.
function viewer(...controls) {
  const state = { runs: [], byTime: false, at: 0, timer: null };
  let views = [];
  const source = make("p", { class: "source" });
  const columns = make("div", { class: "columns" });
  const live = make("p", { class: "quiet", role: "status", "aria-live": "polite" });
  const slider = make("input", { type: "range", min: "0", id: "at", oninput: () => {
    stop();
    show(Number(slider.value));
  } });
  const order = make("select", { id: "order", onchange: () => {
    state.byTime = order.value === "time";
    draw();
  } }, make("option", { value: "iteration" }, "iteration"),
  make("option", { value: "time" }, "measured time"));
  const play = button("Play", () => toggle());
  const legend = make("div", { class: "legend", role: "note", "aria-label": "Legend" });

  // How far a system has come at the slider's place.
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
    return Math.max(0, ...state.runs.map((run) => state.byTime ?
      run.iterations.reduce((sum, part) => sum + part.ms, 0) : run.iterations.length));
  }

  function open(sentence) {
    state.runs = sentence.runs;
    source.replaceChildren(make("span", { class: "quiet" }, "Source  "), sentence.source);
    draw();
    if (!state.byTime) show(Math.min(1, last()));
  }

  // After a change of the runs: all of it, at its end.
  function draw() {
    stop();
    const parts = state.runs.flatMap((run) => run.iterations);
    const longest = Math.max(0, ...parts.map((part) => part.ms));
    views = state.runs.map((run) => column(run, longest));
    columns.replaceChildren(...views.map((view) => view.box));
    explain(parts);
    slider.max = String(last());
    slider.step = state.byTime ? "any" : "1";
    show(last());
  }

  // What the tokens of each kind look like; what only beams have, where there is one.
  function explain(parts) {
    const one = (kind, meaning) => make("span", {}, token("token", kind), meaning);
    const others = Object.keys(OTHERS).slice(0, parts.some((part) => part.agreed) ? undefined : 1);
    legend.replaceChildren(...Object.keys(MARKS).map((kind) => one(kind, data.verdicts[kind])),
      ...others.map((kind) => one(kind, OTHERS[kind][1])));
  }

  function column(run, longest) {
    const rounds = run.iterations;
    const total = rounds.reduce((sum, part) => sum + part.ms, 0);
    const count = rounds.reduce((sum, part) => sum + emitted(part).length, 0);
    let facts = plural(rounds.length, "iteration") + ", " +
      (rounds.length ? count / rounds.length : 0).toFixed(2) + " tokens each, " +
      total.toFixed(1) + " ms";
    if (typeof run.score === "number") facts += ", score " + run.score.toFixed(4);
    const output = make("div", { class: "output" });
    const items = rounds.map((part, i) => make("li", {},
      make("span", { class: "number" }, String(i + 1)), ...judged(part),
      timeBar(part, longest)));
    const final = make("p", { class: "quiet text" });
    const box = make("section", { class: "system", "aria-label": run.name },
      make("h2", {}, run.name), make("div", { class: "quiet" }, run.settings || ""),
      make("div", { class: "quiet facts" }, facts), make("h3", {}, "Output so far"), output, final,
      make("h3", {}, "Iterations"), make("ol", { class: "rounds" }, ...items));
    return { run, box, output, items, final };
  }

  function show(at) {
    state.at = Math.max(0, Math.min(at, last()));
    slider.value = String(state.at);
    const states = [];
    for (const view of views) {
      const rounds = view.run.iterations;
      const count = reached(rounds, state.at);
      view.items.forEach((item, i) => {
        item.className = i >= count ? "later" : i === count - 1 ? "now" : "";
        if (i === count - 1) item.setAttribute("aria-current", "step");
        else item.removeAttribute("aria-current");
      });
      view.output.replaceChildren(...rounds.slice(0, count).flatMap(emitted));
      const done = count === rounds.length;
      view.final.textContent = done ? view.run.output_text || "" : "";
      states.push(view.run.name + " " + (done ? "done after " : "iteration ") + count +
        (done ? "" : " of " + rounds.length));
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
    for (const run of state.runs) {
      let spent = 0;
      for (const part of run.iterations) moments.push(spent += part.ms);
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
      draw();
    }
    if (state.at >= last()) show(0);
    play.textContent = "Pause";
    const begun = performance.now() - state.at * SLOWER;
    state.timer = setInterval(() => {
      show((performance.now() - begun) / SLOWER);
      if (state.at >= last()) stop();
    }, 40);
  }

  const keys = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), " ": () => toggle(),
    Home: () => { stop(); show(0); }, End: () => { stop(); show(last()); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const tag = event.target.tagName;
    // Leave the controls their own keys.
    if (/^(SELECT|INPUT|TEXTAREA|SUMMARY)$/.test(tag) || (tag === "BUTTON" && event.key === " ")) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  const box = make("div", {},
    make("div", { class: "bar" }, ...controls,
      make("label", { for: "order" }, "Step by", order),
      button("Back", () => step(-1)), button("Step", () => step(1)), play,
      make("label", { class: "wide", for: "at" }, make("span", { class: "hidden" }, "Place"),
        slider)),
    live, legend, source, columns,
    make("p", { class: "quiet" }, "Keys: ",
      make("kbd", {}, "\u2190"), " ", make("kbd", {}, "\u2192"), " step, ",
      make("kbd", {}, "Home"), " ", make("kbd", {}, "End"), " begin and end, ",
      make("kbd", {}, "Space"), " play in measured time, " + SLOWER + " times slower. " +
      "Times: bars are striped for the drafter, filled for the verifier, empty for the rest."));
  return { box, open, draw, keys };
}
