// The page of specdec-trace html: the sentences in #data, one at a time.
(() => {
  // The source as text, subwords joined; where it was decoded without a tokenizer, its tokens.
  function sourceText(sentence) {
    if (sentence.text !== null) return sentence.text;
    const words = sentence.source.filter((word) => word !== "</s>");
    return words.some((word) => word.startsWith("\u2581")) ?
      words.join("").replaceAll("\u2581", " ").trim() : words.join(" ").replaceAll("@@ ", "");
  }

  const select = make("select", { id: "sentence", onchange: () => open(select.selectedIndex) });
  data.sentences.forEach((sentence) => {
    const words = sourceText(sentence);
    const short = words.length > 60 ? words.slice(0, 60) + "\u2026" : words;
    select.append(make("option", {}, sentence.id + ": " + short));
  });
  const left = data.total - data.sentences.length;
  const shown = data.sentences.length + (left > 0 ? " of " + data.total : "") + " sentences";
  const view = viewer(make("label", { for: "sentence" }, shown, select),
    button("Previous", () => open(select.selectedIndex - 1)),
    button("Next", () => open(select.selectedIndex + 1)));

  function open(number) {
    const index = Math.max(0, Math.min(number, data.sentences.length - 1));
    select.selectedIndex = index;
    view.open({ ...data.sentences[index], source: sourceText(data.sentences[index]) });
  }

  view.keys.n = () => open(select.selectedIndex + 1);
  view.keys.p = () => open(select.selectedIndex - 1);
  document.getElementById("app").append(view.box);
  open(0);
})();
