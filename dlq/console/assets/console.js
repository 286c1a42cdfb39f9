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
  links[next]?.focus({ preventScroll: true });
  // To where the bar does not cover it, and at once: keys may be pressed faster than it glides.
  links[next]?.scrollIntoView({ block: "nearest", behavior: "instant" });
}

/** Tick the row with the focus. */
function tickRow() {
  const row = document.activeElement.closest("tr");
  if (row) find("input[type=checkbox]", row)?.click();
}

/** Go to the bar for the ticked rows, which is there only while some are ticked. */
function goToBar() {
  const why = find(".bar-of-actions input");
  if (why?.checkVisibility()) why.focus();
  else say("Tick a row first.");
}

/** Keys as in many tools; not while somebody types. */
function startKeys() {
  const help = find("#keys");
  const actions = {
    "/": () => find("#search-all").focus(),
    j: () => stepRows(1),
    k: () => stepRows(-1),
    x: tickRow,
    d: goToBar,
    "?": () => (help.open ? help.close() : help.showModal()),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (help.open && event.key !== "?")) return;
    if (event.target.id === "search" && event.key === "ArrowDown") {
      event.preventDefault();
      stepRows(1);
    }
    if (event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });
  find("#keys-open").addEventListener("click", actions["?"]);
}

/** Arrows open a menu and go through it; Escape, and whoever goes elsewhere, closes it. */
function startMenu(menu) {
  const summary = find("summary", menu);
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && menu.open) {
      menu.open = false;
      summary.focus();
      return;
    }
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    if (by > 0) menu.open = true;
    if (!menu.open) return;
    const stops = [summary, ...findAll("input:not([type=hidden]), button, a", menu)];
    stops[stops.indexOf(document.activeElement) + by]?.focus();
  });
  // What lies below it must not be hidden from who goes there.
  const closeFor = ({ relatedTarget, target }) => {
    if (!menu.contains(relatedTarget ?? target)) menu.open = false;
  };
  menu.addEventListener("focusout", closeFor);
  document.addEventListener("click", closeFor);
}

/** On a new page go on from the row that one comes back from, or else from the content. */
function placeFocus() {
  const isOfConsole = document.referrer.startsWith(find(".brand a").href);
  if (!isOfConsole || document.activeElement !== document.body) return;
  const { pathname } = new URL(document.referrer);
  const row = findAll("main .rows tbody a").find((link) => link.pathname === pathname);
  (row ?? find("#content")).focus({ preventScroll: row === undefined });
}

/** What an update takes away does not take the focus along; htmx keeps that of what has an id. */
function keepFocus() {
  const held = new WeakSet();
  document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
    if (target.contains(document.activeElement)) held.add(target);
  });
  document.addEventListener("htmx:afterSettle", ({ detail: { target } }) => {
    if (!held.delete(target) || document.activeElement !== document.body) return;
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
  });
}

/** A field of the body becomes an operation of the JSON Patch. */
function startFields(form) {
  const patch = find("textarea", form);
  const add = (operation) => {
    const text = patch.value.trim() || "[]";
    const operations = JSON.parse(text);
    if (!Array.isArray(operations)) throw new TypeError("no list");
    // The text that is there stays: written anew, numbers would lose digits.
    const before = operations.length ? `${text.slice(0, -1).trimEnd()},` : "[";
    patch.value = `${before}\n  ${operation}\n]`;
    // The value is what is to be changed.
    const end = patch.value.length - 3;
    patch.setSelectionRange(end - operation.split('"value": ')[1].length + 1, end);
    patch.focus();
    htmx.trigger(form, "input");
  };
  for (const button of findAll("[data-operation]")) {
    button.addEventListener("click", () => {
      try {
        add(button.dataset.operation);
      } catch {
        say("The JSON Patch has a fault: mend it first.");
      }
    });
  }
}

startTheme();
startNotices();
startKeys();
findAll(".menu").forEach(startMenu);
placeFocus();
keepFocus();
if (find("#found") && CSS.highlights) markSamples(find("#found"));
if (find("#find")) startList();
if (find("#edit")) startFields(find("#edit"));
equipCommandsIn(document);
document.addEventListener("htmx:afterSwap", ({ target }) => equipCommandsIn(target));
