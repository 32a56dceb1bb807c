// What the scripts of specdec-trace's and specdec-demo's pages share; stands before them in one
// script element. Text from the corpus only ever becomes text nodes and attributes.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const MARKS = { own: "+", relaxed: "~", drawn: "%", rejected: "\u00d7", unseen: "\u00b7" };
// Tokens that are not drafted.
const OTHERS = {
  verifier: [">", "the verifier's own token"],
  agreed: ["=", "beam search: in all hypotheses (at the end: in the best)"],
  live: ["-", "beam search: not in all hypotheses"],
  waits: ["?", "beam search: the replay stopped here; what follows is scored next"],
  kept: ["+", "beam search: drafted; leads to a hypothesis or follows a live one"],
  dropped: ["\u00d7", "beam search: drafted; leads to no hypothesis"],
};
const SAID = {
  own: "accepted", relaxed: "accepted, relaxed", drawn: "accepted, sampled",
  rejected: "rejected", unseen: "not judged", verifier: "verifier's own",
  agreed: "in all hypotheses", live: "in some hypotheses", waits: "replay stopped",
  kept: "drafted, kept", dropped: "drafted, dropped",
};

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

// An iteration's draft with its verdicts, and the verifier's own token.
function judged(part) {
  const boxes = part.draft.map((word, i) => {
    const verdict = part.verdicts[i];
    const other = verdict === "relaxed" || verdict === "drawn" ? part.choices[i] : undefined;
    return token(word, verdict, other);
  });
  return boxes.concat(undrafted(part));
}

// The verifier's own token; in beam search, the tokens that all hypotheses now have.
function undrafted(part) {
  if (part.agreed) return part.agreed.map((word) => token(word, "agreed"));
  return part.own === null ? [] : [token(part.own, "verifier")];
}

// A pass of beam search, to open: what was scored, the live hypotheses, what was drafted.
function beamed(part) {
  const beam = part.beam;
  if (!beam) return [];
  const hypotheses = beam.hypotheses.map((one) => make("li", {}, ...one.tokens.map((word, i) =>
    token(word, i < part.agreed.length ? "agreed" :
      one.waits && i === one.tokens.length - 1 ? "waits" : "live"))));
  const drafts = beam.draft.map((one) => make("li", {}, ...one.tokens.map((word, i) =>
    token(word, i < one.known ? "live" : i < one.known + one.kept ? "kept" : "dropped"))));
  const words = beam.scored + " prefixes scored, " + beam.drafted + " of them drafted, " +
    beam.used + " drafted ones used, " + beam.steps + " steps";
  const box = make("details", { class: "beam" }, make("summary", {}, words));
  if (hypotheses.length) box.append("Live hypotheses", make("ol", { class: "live-ones" }, ...hypotheses));
  if (drafts.length) box.append("Drafted", make("ul", { class: "drafted" }, ...drafts));
  return [box];
}

// What the tokens of each kind look like, drafted or not; for the legend.
function explained(kinds, beams) {
  const one = (kind, meaning) => make("span", {}, token("token", kind), meaning);
  return [...kinds.map((kind) => one(kind, data.verdicts[kind])),
    one("verifier", OTHERS.verifier[1]), ...(beams ? Object.keys(OTHERS).slice(1).map((kind) => one(kind, OTHERS[kind][1])) : [])];
}
