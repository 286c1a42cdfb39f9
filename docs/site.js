// The search reads signs as operators: ":" as the end of a field's name, "-" as "without". Messages that people paste
// have such signs, and begin with "dlq:". A single letter goes only where another word follows: at the end it may be the
// beginning of a word that is being typed.
document.addEventListener(
  "input",
  (event) => {
    const field = event.target;
    if (!field.matches("[data-md-component=search-query]")) return;

    const words = field.value.replace(/^\s*dlq:\s/, "");
    const plain = words.replace(/[^\p{L}\p{N}\s]+|\b\S\b(?=\s+\S)/gu, " ");
    if (plain !== field.value) field.value = plain;
    // A paste by mouse has no key that would start the search.
    if (event.inputType === "insertFromPaste") field.dispatchEvent(new KeyboardEvent("keyup"));
  },
  true,
);

// What the theme leaves out for people who listen, or use the keyboard: a name for the search; each pair of copy buttons
// is no navigation; and a table that is wider than the page can be scrolled.
const completeTheme = () => {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  }
  for (const buttons of document.querySelectorAll(".md-code__nav:not([role])")) buttons.setAttribute("role", "none");
};
new MutationObserver(completeTheme).observe(document.documentElement, { childList: true, subtree: true });
