// What each page of the console does: copy buttons, notices, and what htmx does not.

/** Copy buttons for commands, also for those in a fragment that came later. */
function equipCommandsIn(element) {
  for (const command of findAll(".command", element)) {
    if (find(".copy", command)) continue;
    const button = make("button", "copy", "Copy");
    button.type = "button";
    button.setAttribute("aria-label", "Copy this command");
    button.addEventListener("click", () => copyCommand(button, find("code", command)));
    command.append(button);
  }
}

/** The console is stopped, or it refuses: say so, and do not leave an old page looking alive. */
function startNotices() {
  const notice = find("#notice");
  const show = (text) => {
    notice.textContent = text;
    notice.hidden = text === "";
  };
  document.addEventListener("htmx:sendError", () =>
    show("The console does not answer: it was stopped. Start it again with the command dlq console."));
  document.addEventListener("htmx:responseError", ({ detail }) =>
    show(detail.xhr.getResponseHeader("content-type")?.startsWith("text/plain")
      ? detail.xhr.responseText
      : `The console failed (${detail.xhr.status}); its terminal says why.`));
  document.addEventListener("htmx:afterRequest", ({ detail }) => detail.successful && show(""));
}

/** Go to the next row of a table, or with -1 to the one before. */
function stepRows(by) {
  const links = findAll("main .rows tbody tr").map((row) => find("a", row)).filter(Boolean);
  const current = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
  const next = current < 0 ? 0 : Math.min(Math.max(current + by, 0), links.length - 1);
  links[next]?.focus();
}

/** Keys as in many tools; not while somebody types. */
function startKeys() {
  const help = find("#keys");
  const actions = {
    "/": () => find("#search-all").focus(),
    j: () => stepRows(1),
    k: () => stepRows(-1),
    "?": () => (help.open ? help.close() : help.showModal()),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (help.open && event.key !== "?")) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });
  find("#keys-open").addEventListener("click", actions["?"]);
}

startTheme();
startNotices();
startKeys();
if (find("#found") && CSS.highlights) markSamples(find("#found"));
if (find("#find")) startList();
equipCommandsIn(document);
document.addEventListener("htmx:afterSwap", ({ target }) => equipCommandsIn(target));
