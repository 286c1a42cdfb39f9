/** The state of a job for screen readers: said when it changes, not each second. */
function startSaying() {
  const say = () => {
    const said = find("#said");
    const text = find("[data-say]")?.dataset.say;
    if (text !== undefined && said.textContent !== text) said.textContent = text;
  };
  document.addEventListener("htmx:afterSwap", say);
}

startSaying();
