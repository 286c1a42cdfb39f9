// The page's one Trusted Types policy. htmx parses each fragment that it gets from this server; the
// policy lets exactly these texts be parsed, each once. It makes no scripts, so none can be added.
const mostExpected = 8;
const expectedFragments = [];

globalThis.trustedTypes?.createPolicy("default", {
  createHTML: (text) => {
    if (text === "") return text;
    const place = expectedFragments.findIndex((one) => text.includes(one));
    return place < 0 ? null : (expectedFragments.splice(place, 1), text);
  },
});

document.addEventListener("htmx:beforeSend", ({ detail: { xhr } }) => {
  // Before htmx learns of the answer, and even if its target has left the page meanwhile.
  xhr.addEventListener("readystatechange", () => {
    if (xhr.readyState !== XMLHttpRequest.DONE || xhr.responseText === "") return;
    expectedFragments.push(xhr.responseText);
    expectedFragments.splice(0, expectedFragments.length - mostExpected);
  });
});
