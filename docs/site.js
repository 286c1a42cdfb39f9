// The search reads signs as operators: ":" as the end of a field's name, "-" as "without". Messages that people paste
// have such signs, and begin with "dlq:". The signs of a number stay: 10,000 is one word. A single letter goes only
// where another word follows: at the end it may be the beginning of a word that is being typed.
const plainWords = (text) => {
  // The subject of an alarm's mail is the alarm's name, between others.
  const alarm = text.match(/(?<![A-Za-z])[A-Z][A-Za-z]+Alarm(?![A-Za-z])/);
  if (alarm && alarm[0] !== text) return alarm[0];

  return text
    .replace(/^\s*dlq:\s/, "")
    .replace(/[^\p{L}\p{N}\s.,]+|(?<!\p{N})[.,]|[.,](?!\p{N}|$)/gu, " ")
    .replace(/(?<![\p{L}\p{N}.,])[\p{L}\p{N}](?=\s+\S)/gu, " ");
};

document.addEventListener(
  "input",
  (event) => {
    const field = event.target;
    if (!field.matches("[data-md-component=search-query]")) return;

    const plain = plainWords(field.value);
    if (plain !== field.value) field.value = plain;
    // A paste by mouse has no key that would start the search.
    if (event.inputType === "insertFromPaste") field.dispatchEvent(new KeyboardEvent("keyup"));
  },
  true,
);

// What the theme leaves out. For people who listen, or use the keyboard: a name for the search; each pair of copy buttons
// is no navigation; and a table that is wider than the page can be scrolled. For everybody: an option is not broken
// behind its first sign.
const WHOLE_CHARACTERS = 28;
const completeTheme = () => {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  }
  for (const code of document.querySelectorAll(".md-typeset :not(pre) > code:not(.whole)")) {
    if (code.textContent.startsWith("-") && code.textContent.length <= WHOLE_CHARACTERS) code.classList.add("whole");
  }
  for (const buttons of document.querySelectorAll(".md-code__nav:not([role])")) buttons.setAttribute("role", "none");
};
new MutationObserver(completeTheme).observe(document.documentElement, { childList: true, subtree: true });
