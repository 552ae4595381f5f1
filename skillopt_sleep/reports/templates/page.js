"use strict";
// Composes the one command to copy from the rules that are ticked; nothing is sent anywhere.
const boxes = [...document.querySelectorAll("input[data-adopt]")];
const command = document.getElementById("command");
const copy = document.getElementById("copy");

function compose() {
  const chosen = boxes.filter((box) => box.checked).map((box) => box.dataset);
  const calls = ["proposed", "held", "undecided"].map((kind) => {
    const edits = chosen.filter((rule) => rule.kind === kind).map((rule) => "--edit " + rule.adopt);
    const flag = kind === "undecided" ? " --undecided" : "";
    return edits.length ? command.dataset.base + " " + edits.join(" ") + flag + command.dataset.options : "";
  });
  const line = calls.filter(Boolean).join(" && ");
  command.textContent = line;
  document.querySelector(".bar").hidden = !line;
}

async function copyCommand() {
  try {
    await navigator.clipboard.writeText(command.textContent);
  } catch {
    getSelection().selectAllChildren(command);
    document.execCommand("copy");
  }
  copy.textContent = "Copied";
  setTimeout(() => { copy.textContent = "Copy"; }, 1600);
}

if (command) {
  boxes.forEach((box) => box.addEventListener("change", compose));
  copy.addEventListener("click", copyCommand);
  compose();
}

let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => closed.forEach((details) => { details.open = false; }));
