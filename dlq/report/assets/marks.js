// Colours over text through the CSS Custom Highlight API: no element is added, whatever the text is.
const mostMarks = 2_000;

/** Ranges of a pattern's matches in an element's texts; with a group, of that group. */
function rangesOf(element, pattern) {
  const ranges = [];
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const match of node.data.matchAll(pattern)) {
      const [start, end] = match.indices[1] ?? match.indices[0];
      ranges.push(new StaticRange({ startContainer: node, startOffset: start, endContainer: node, endOffset: end }));
    }
  }
  return ranges;
}

const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const jsonKeys = /"(?:[^"\\]|\\.)*"(?=: )/dg;

/** Fields and values of differences, or fields alone, as they are in laid-out JSON. */
function leadPatterns(group) {
  return findAll(".differences li > p:first-child mark", group).map((mark) => {
    const code = mark.previousElementSibling;
    const name = code.textContent.split(".").at(-1).replace(/(\[\])+$/, "");
    const isValue = mark.previousSibling.data.trim() === "=";
    const value = isValue ? `"?${literal(mark.textContent.replace(/…$/, ""))}` : "";
    return new RegExp(`("${literal(name)}": ${value})`, "dg");
  });
}

function markSamples(group) {
  const patterns = leadPatterns(group);
  for (const body of findAll(".body[data-kind='JSON']", group)) {
    for (const range of rangesOf(body, jsonKeys)) mark("json-key", range);
    for (const pattern of patterns) for (const range of rangesOf(body, pattern)) mark("difference", range);
  }
}

function mark(name, range) {
  if (!CSS.highlights.has(name)) CSS.highlights.set(name, new Highlight());
  const highlight = CSS.highlights.get(name);
  highlight.priority = ["json-key", "difference", "found"].indexOf(name);
  highlight.add(range);
}

function markFound() {
  CSS.highlights.delete("found");
  if (filters.words.length === 0) return;
  const pattern = new RegExp(filters.words.map(literal).join("|"), "dgi");
  let left = mostMarks;
  for (const element of findAll(`details.group:not([hidden]) :is(${searchedParts})`)) {
    for (const range of rangesOf(element, pattern)) {
      if ((left -= 1) < 0) return;
      mark("found", range);
    }
  }
}

function startMarks() {
  if (!CSS.highlights) return;
  onFirstOpen.push(markSamples);
  onFilters.push(markFound);
}
