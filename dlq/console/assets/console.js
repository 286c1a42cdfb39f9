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

/** The key / goes to the search, as in many tools; not while somebody types. */
function startSearchKey() {
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    event.preventDefault();
    find("#search-all").focus();
  });
}

startTheme();
startNotices();
startSearchKey();
if (find("#found") && CSS.highlights) markSamples(find("#found"));
if (find("#find")) startList();
equipCommandsIn(document);
document.addEventListener("htmx:afterSwap", ({ target }) => equipCommandsIn(target));
