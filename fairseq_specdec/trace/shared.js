// What the scripts of specdec-trace's and specdec-demo's pages share; stands before them in one
// script element. Text from the corpus only ever becomes text nodes and attributes.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const MARKS = { own: "+", relaxed: "~", drawn: "%", rejected: "\u00d7", unseen: "\u00b7" };
const SAID = {
  own: "accepted", relaxed: "accepted, relaxed", drawn: "accepted, sampled",
  rejected: "rejected", unseen: "not judged", verifier: "verifier's own",
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
  const mark = kind === "verifier" ? ">" : MARKS[kind];
  const meaning = kind === "verifier" ? "the verifier's own token" : data.verdicts[kind];
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
  if (part.own !== null) boxes.push(token(part.own, "verifier"));
  return boxes;
}

// What the tokens of each kind look like, and the verifier's own; for the legend.
function explained(kinds) {
  const one = (kind, meaning) => make("span", {}, token("token", kind), meaning);
  return [...kinds.map((kind) => one(kind, data.verdicts[kind])),
    one("verifier", "the verifier's own token")];
}
