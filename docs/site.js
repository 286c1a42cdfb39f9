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
