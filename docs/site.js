// The search reads signs as operators: ":" as the end of a field's name, "-" as "without". Messages that people paste
// have such signs, and begin with "dlq:".
document.addEventListener(
  "input",
  (event) => {
    const field = event.target;
    if (!field.matches("[data-md-component=search-query]")) return;

    const plain = field.value.replace(/^\s*dlq:\s/, "").replace(/[^\p{L}\p{N}\s]+|\b\S\b/gu, " ");
    if (plain !== field.value) field.value = plain;
    // A paste by mouse has no key that would start the search.
    if (event.inputType === "insertFromPaste") field.dispatchEvent(new KeyboardEvent("keyup"));
  },
  true,
);
