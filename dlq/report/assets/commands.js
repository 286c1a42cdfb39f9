// Commands to copy, and the installation that the reader fills into them.
const installation = { name: "" };

/** The steps that are the same for every group are once in the page; an open group gets its own. */
function equipGroup(group) {
  // Of similar groups each has its own, and is equipped when it is opened.
  const isOwn = (element) => element.closest(".part, .group") === group;
  const list = findAll(".redrive ol", group).find(isOwn);
  if (!list) return;
  const id = list.dataset.group;
  const steps = ["#redrive .look", "#redrive .do"].map((step) => find(step).cloneNode(true));
  const decide = find("#redrive .decide").cloneNode(true);
  for (const step of steps) find(".group-option", step).textContent = `--group ${id} `;
  find(".id", decide).textContent = id;
  find(".then", list).replaceWith(...steps);
  const text = make("p", "only");
  text.textContent = "Or only decide, and redrive all decided groups together later";
  list.after(text, decide);
  equipCommands(list.closest(".redrive"));
}

/** Give commands what only works with a script: buttons that copy, and a place to fill in. */
function equipCommands(section) {
  const label = make("label", "installation", "Stack ");
  const input = make("input");
  Object.assign(input, { type: "text", placeholder: "name of the stack, or URL of the main queue", spellcheck: false });
  input.addEventListener("input", () => {
    installation.name = input.value.trim();
    fillInstallation(document);
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
  fillInstallation(section);
}

/** One word for a POSIX shell, quoted as Python's shlex.quote does. */
function shellQuoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

function fillInstallation(within) {
  const { name } = installation;
  const option = name.includes("://") ? "--main-queue-url" : "--stack";
  for (const input of findAll(".installation input", within)) if (input.value.trim() !== name) input.value = name;
  for (const slot of findAll(".slot", within)) {
    slot.textContent = `${option} ${name ? shellQuoted(name) : "NAME"}`;
    slot.classList.toggle("filled", name !== "");
  }
}
