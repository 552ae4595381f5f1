"use strict";
// Composes the one command to copy from the rules that are ticked; nothing is sent anywhere.
const boxes = [...document.querySelectorAll("input[data-adopt]")];
const command = document.getElementById("command");

function compose() {
  const chosen = boxes.filter((box) => box.checked).map((box) => box.dataset);
  const calls = ["proposed", "held", "undecided"].map((kind) => {
    const edits = chosen.filter((rule) => rule.kind === kind).map((rule) => "--edit " + rule.adopt);
    const flag = kind === "undecided" ? " --undecided" : "";
    return edits.length ? command.dataset.base + " " + edits.join(" ") + flag + command.dataset.options : "";
  });
  const lines = calls.filter(Boolean);
  const line = lines.join(" && ");
  const many = chosen.length === 1 ? "the rule" : "the " + chosen.length + " rules";
  const two = lines.length > 1 ? " (a command for each kind of rule; revert undoes all)" : "";
  document.getElementById("ticked").textContent = "To adopt " + many + " you ticked" + two + ":";
  command.textContent = line;
  document.querySelector(".bar").hidden = !line;
}

async function copyFrom(button, code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    getSelection().selectAllChildren(code);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1600);
}

document.querySelectorAll("button.copy").forEach((button) => {
  const code = button.dataset.copies ? command : button.previousElementSibling;
  button.hidden = false;
  button.addEventListener("click", () => copyFrom(button, code));
});

if (command) {
  boxes.forEach((box) => box.addEventListener("change", compose));
  compose();
}

let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => closed.forEach((details) => { details.open = false; }));
