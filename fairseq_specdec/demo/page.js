// Asks for a race and draws it, with the functions of trace/shared.js. Whatever was typed or
// decoded only ever becomes text nodes.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  let lanes = new Map();
  let running = null; // AbortController of the race
  let timers = [];
  let medians = {}; // of the last race
  let outcome = ""; // of the last race, in words

  function block(part) {
    const time = part.ms.toFixed(1) + " ms (drafter " + part.drafter_ms.toFixed(1) +
      ", verifier " + part.verifier_ms.toFixed(1) + ")";
    return make(part.beam ? "div" : "span", { class: "block", title: time }, ...judged(part),
      ...beamed(part));
  }

  function plural(number, word) {
    return number + " " + word + (number === 1 ? "" : "s");
  }

  function addLane(name) {
    const settings = data.strategies.find((s) => s.name === name).settings;
    const lane = {
      name, events: [], done: null, times: [],
      facts: make("span", { class: "facts quiet" }), blocks: make("div", { class: "blocks" }),
      bar: make("span", {}), text: make("p", { class: "text" }),
    };
    lane.box = make("section", { class: "lane", "aria-label": name },
      lane.facts, make("h2", {}, name), " ", make("span", { class: "quiet" }, settings),
      make("div", { class: "track", "aria-hidden": "true" }, lane.bar), lane.blocks, lane.text);
    lanes.set(name, lane);
    $("lanes").append(lane.box);
  }

  function clear(lane) {
    lane.blocks.replaceChildren();
    lane.text.textContent = "";
    lane.facts.textContent = "";
    lane.shown = 0;
  }

  function longest() {
    return Math.max(1, ...[...lanes.values()].map((lane) => lane.timed !== undefined ? lane.timed :
      lane.done ? lane.done.ms : lane.events.length ? lane.events[lane.events.length - 1].at_ms : 0));
  }

  function place(lane, ms) {
    lane.ms = ms;
    const end = longest();
    for (const other of lanes.values()) other.bar.style.width = 100 * (other.ms || 0) / end + "%";
  }

  // Showing a race slows it: its blocks are laid on the time that it takes unwatched, if known.
  function moment(lane, ms) {
    return lane.timed === undefined || !lane.done.ms ? ms : ms * lane.timed / lane.done.ms;
  }

  function draw(lane, event) {
    const ms = moment(lane, event.at_ms);
    lane.blocks.querySelectorAll("details").forEach((older) => { older.open = false; });
    const added = block(event.iteration);
    added.querySelectorAll("details").forEach((pass) => { pass.open = true; });
    lane.blocks.append(added);
    lane.text.append(event.text);
    lane.shown += 1;
    lane.facts.textContent = plural(lane.shown, "iteration") + ", " + ms.toFixed(1) + " ms";
    place(lane, ms);
  }

  function drawEnd(lane) {
    const done = lane.done;
    lane.text.textContent = done.text;
    const watched = done.ms.toFixed(1) + " ms while watched";
    lane.facts.textContent = plural(done.iterations, "iteration") + ", " +
      (lane.timed === undefined ? watched : lane.timed.toFixed(1) + " ms (" + watched + ")");
    place(lane, lane.timed === undefined ? done.ms : lane.timed);
  }

  // A line of the table; cells are named where there is no room for its head.
  function row(name, cells) {
    const titles = [...document.querySelectorAll("thead th")].map((cell) => cell.textContent);
    return make("tr", {}, make("th", { scope: "row" }, name),
      ...cells.map((cell, i) => make("td", { "data-label": titles[i + 1] }, cell)));
  }

  function against(first, text) {
    return !first ? "\u2013" : text === first.done.text ? "as greedy" : "differs from greedy";
  }

  // `stock`: fairseq's own run, once it has ended.
  function table(stock) {
    const base = medians.greedy;
    const first = lanes.get("greedy");
    const rows = [];
    for (const lane of lanes.values()) {
      const done = lane.done;
      const ms = medians[lane.name];
      const speed = base === undefined || ms === undefined ? "\u2013" :
        (base / ms).toFixed(2) + "\u00d7";
      const same = lane === first ? "\u2013" : against(first, done.text);
      const share = done.drafted ? Math.round(100 * done.accepted / done.drafted) + " %" : "\u2013";
      const over = !stock || ms === undefined ? "\u2013" : (stock.ms / ms).toFixed(1) + "\u00d7";
      const cells = [ms === undefined ? "\u2013" : ms.toFixed(1) + " ms", speed, over,
        String(done.iterations), String(done.tokens), done.mean_accepted_tokens.toFixed(2), share, same];
      rows.push(row(lane.name, cells));
    }
    if (stock) {
      const speed = base === undefined ? "\u2013" : (base / stock.ms).toFixed(2) + "\u00d7";
      rows.push(row("fairseq itself", [stock.ms.toFixed(1) + " ms", speed, "1.0\u00d7", "\u2013",
        String(stock.tokens), "\u2013", "\u2013", against(first, stock.text)]));
    }
    $("rows").replaceChildren(...rows);
    $("caption").textContent = "Time: median of " + plural(data.repeats, "run") +
      " from text to text, in turns, with nothing shown meanwhile. Speed: greedy's time by this one." +
      (stock ? " fairseq itself ran last, after a warm-up." : "");
    $("results").hidden = false;
  }

  function say(words) {
    $("status").textContent = words;
  }

  function complain(words) {
    $("problem").textContent = words;
    $("problem").hidden = words === "";
  }

  const EVENTS = {
    waiting: () => say("Another race is running; this one waits for its end."),
    start: (event) => event.names.forEach(addLane),
    go: (event) => {
      const lane = lanes.get(event.name);
      clear(lane);
      lane.box.classList.add("now");
      say(event.name + " decodes.");
    },
    block: (event) => {
      const lane = lanes.get(event.name);
      lane.events.push(event);
      draw(lane, event);
    },
    finish: (event) => {
      const lane = lanes.get(event.name);
      lane.done = event;
      lane.box.classList.remove("now");
      drawEnd(lane);
    },
    timed: (event) => say("Timing, run " + event.turn + " of " + data.repeats + ": " +
      event.name + " " + event.ms.toFixed(1) + " ms."),
    end: (event) => {
      for (const [name, ms] of Object.entries(event.ms)) lanes.get(name).timed = ms;
      lanes.forEach(drawEnd);
      medians = event.ms;
      table(null);
      const ranks = Object.entries(event.ms).sort((a, b) => a[1] - b[1]);
      outcome = ranks.length ? "Done. Fastest: " + ranks[0][0] + ", " + ranks[0][1].toFixed(1) +
        " ms." : "Done.";
      say(outcome + ($("stock").checked ? " fairseq itself decodes." : ""));
      return true;
    },
    stock: (event) => {
      table(event);
      outcome += " fairseq itself: " + event.ms.toFixed(1) + " ms.";
      say(outcome);
    },
    error: (event) => {
      outcome = "";
      complain(event.message);
      say("");
      return true;
    },
  };

  async function listen(response) {
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    let ended = false;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const event = JSON.parse(line);
        if (EVENTS[event.event](event)) ended = true;
      }
    }
    if (!ended) throw new Error("the answer ended early");
  }

  function busy(on) {
    $("run").disabled = on;
    $("stop").disabled = !on && timers.length === 0;
    $("replay").disabled = on || ![...lanes.values()].length ||
      [...lanes.values()].some((lane) => !lane.done);
    document.body.setAttribute("aria-busy", String(on));
  }

  async function run() {
    if (running) return;
    stopReplay();
    complain("");
    const strategies = [...document.querySelectorAll("#strategies input:checked:enabled")]
      .map((box) => box.value);
    const beam = Number($("beam").value);
    explain(beam > 1);
    $("results").hidden = true;
    $("lanes").replaceChildren();
    lanes = new Map();
    const focused = document.activeElement;
    running = new AbortController();
    outcome = "";
    busy(true);
    say("Asking.");
    try {
      const response = await fetch("/race", {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ text: $("text").value, strategies, beam, stock: $("stock").checked }), signal: running.signal,
      });
      if (response.ok) {
        await listen(response);
      } else {
        complain((await response.json()).error);
        say("");
        $("text").focus();
      }
    } catch (error) {
      outcome = "";
      if (error.name === "AbortError") say("Stopped.");
      else {
        complain("The server does not answer (" + error.message + "): is specdec-demo running?");
        say("");
      }
    }
    for (const lane of lanes.values()) lane.box.classList.remove("now");
    running = null;
    busy(false);
    // A disabled button lost the focus.
    if (document.activeElement === document.body && focused) focused.focus();
    document.body.dataset.races = String(Number(document.body.dataset.races || 0) + 1);
    if (outcome && !matchMedia("(prefers-reduced-motion: reduce)").matches) replay();
  }

  function stopReplay() {
    timers.forEach(clearTimeout);
    if (timers.length) {
      for (const lane of lanes.values()) {
        clear(lane);
        lane.events.forEach((event) => draw(lane, event));
        drawEnd(lane);
      }
    }
    timers = [];
  }

  // All start at once; each block comes when it came, so many times slower.
  function replay() {
    stopReplay();
    const slower = Number($("slower").value);
    let left = 0;
    for (const lane of lanes.values()) {
      clear(lane);
      place(lane, 0);
      const later = (act, ms) => {
        left += 1;
        timers.push(setTimeout(() => {
          act();
          left -= 1;
          if (left === 0) {
            timers = [];
            say("Replay done. " + outcome);
            busy(false);
          }
        }, ms * slower));
      };
      lane.events.forEach((event) => later(() => draw(lane, event), moment(lane, event.at_ms)));
      later(() => drawEnd(lane), moment(lane, lane.done.ms));
    }
    say("Replay, " + (slower === 1 ? "in measured time. " : slower + " times slower. ") + outcome);
    $("stop").disabled = false;
  }

  function stop() {
    if (running) running.abort();
    if (timers.length) {
      stopReplay();
      say("Stopped.");
      busy(false);
    }
  }

  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  $("stop").addEventListener("click", stop);
  $("replay").addEventListener("click", replay);
  $("drafts").addEventListener("change", () => {
    document.body.classList.toggle("drafts", $("drafts").checked);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") stop();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  });

  for (const strategy of data.strategies) {
    const box = make("input", { type: "checkbox", value: strategy.name });
    box.checked = true;
    $("strategies").append(make("label", { title: strategy.settings }, box, strategy.name));
  }
  for (let beam = 1; beam <= data.widest; beam += 1) {
    $("beam").append(make("option", { value: String(beam) }, String(beam)));
  }
  // Strategies that are not lossless keep one hypothesis.
  function narrow() {
    data.strategies.forEach((strategy, i) => {
      document.querySelectorAll("#strategies input")[i].disabled =
        $("beam").value !== "1" && !strategy.wide;
    });
  }
  $("beam").addEventListener("change", narrow);
  $("beam").value = "1";
  narrow();
  data.examples.forEach((example) => $("examples").append(make("button", {
    type: "button", onclick: () => {
      if (running) return;
      $("text").value = example;
      $("form").requestSubmit();
    },
  }, example)));
  // Nobody samples here; what only beams have is explained where there is one.
  function explain(beams) {
    const kinds = Object.keys(MARKS).filter((kind) => kind !== "drawn");
    $("legend").replaceChildren(...explained(kinds, beams));
    $("legend").hidden = false;
  }
  // Other sites can send a browser here with any address: it fills in the text and starts nothing.
  const asked = new URLSearchParams(location.search);
  $("text").value = (asked.get("text") || data.examples[0] || "").slice(0, data.characters);
})();
