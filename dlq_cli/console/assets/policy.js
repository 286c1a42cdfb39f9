// The page's one Trusted Types policy. htmx parses each fragment that it gets from this server; the
// policy lets exactly these texts be parsed, each once. It makes no scripts, so none can be added.
const expectedFragments = [];

globalThis.trustedTypes?.createPolicy("default", {
  createHTML: (text) => {
    if (text === "") return text;
    const place = expectedFragments.findIndex((one) => text.includes(one));
    return place < 0 ? null : (expectedFragments.splice(place, 1), text);
  },
});

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (detail.shouldSwap && detail.serverResponse) expectedFragments.push(detail.serverResponse);
});
