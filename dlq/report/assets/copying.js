// Copies a command, or selects it for the reader's own keys.
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Where the clipboard is denied, the text is left selected for the reader's own keys. */
function selectText(element) {
  getSelection().selectAllChildren(element);
}

async function copyCommand(button, code) {
  const copied = await copyText(code.textContent);
  if (!copied) selectText(code);
  button.textContent = copied ? "Copied" : "Selected";
  say(copied ? "Copied" : "The command is selected: copy it with your keyboard");
  setTimeout(() => (button.textContent = "Copy"), 2_000);
}
