/** The state of a job for screen readers, said when it changes, not each second; and in the title. */
function startSaying() {
  const say = () => {
    const state = find("[data-say]");
    if (!state) return;
    const said = find("#said");
    if (said.textContent !== state.dataset.say) said.textContent = state.dataset.say;
    document.title = [state.dataset.title, ...document.title.split(" · ").slice(1)].join(" · ");
  };
  document.addEventListener("htmx:afterSwap", say);
}

startSaying();
