// Commands to copy, and the queue that the reader fills into them.
const queue = { url: "" };

/** The steps that are the same for every group stand once in the page; an open group gets its own. */
function equipGroup(group) {
  const steps = ["#put-back .look", "#put-back .do"].map((step) => find(step).cloneNode(true));
  find(".then", group).replaceWith(...steps);
  equipCommands(find(".put-back", group));
}

/** Give commands what only works with a script: buttons that copy, and a queue to fill in. */
function equipCommands(section) {
  const label = make("label", "queue", "To queue ");
  const input = make("input");
  Object.assign(input, { type: "url", placeholder: "queue URL, filled into the commands", spellcheck: false });
  input.addEventListener("input", () => {
    queue.url = input.value.trim();
    fillQueue(document);
  });
  label.append(input);
  find("h2, h4", section).after(label);
  for (const command of findAll(".command", section)) {
    find(".copy", command)?.remove(); // a clone's, which does nothing
    const button = make("button", "copy", "Copy");
    button.type = "button";
    button.setAttribute("aria-label", "Copy this command");
    button.addEventListener("click", () => copyCommand(button, find("code", command)));
    command.append(button);
  }
  fillQueue(section);
}

/** One word for a POSIX shell, quoted as Python's shlex.quote does. */
function shellQuoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

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

function fillQueue(within) {
  const { url } = queue;
  for (const input of findAll(".queue input", within)) if (input.value.trim() !== url) input.value = url;
  for (const slot of findAll(".slot", within)) {
    slot.textContent = url ? shellQuoted(url) : "URL";
    slot.classList.toggle("filled", url !== "");
  }
}
