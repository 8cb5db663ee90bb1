// A chat with AG-UI's own client.  The thread's name is behind the "#" of the
// address: a page that is loaded again, or opened twice, joins its thread.

import { HttpAgent } from "@ag-ui/client";

const url = "/ag-ui";
const threadId = (location.hash ||= `#${crypto.randomUUID()}`).slice(1);
const agent = new HttpAgent({ url, threadId });
const answers = {};
let frame;
const $ = (id) => document.getElementById(id);

function add(parent, tag, text, className = "") {
  parent.append(Object.assign(document.createElement(tag),
    { textContent: text, className }));
  return parent.lastChild;
}

function show() {
  frame = undefined;
  $("messages").replaceChildren();
  for (const { role, content, toolCalls } of agent.messages) {
    if (role === "activity") continue; // also a text that was taken back
    if (content) add($("messages"), "p", content, role);
    for (const { function: f } of toolCalls ?? []) {
      add($("messages"), "p", `${f.name} ${f.arguments}`, "call");
    }
  }
  $("plan").replaceChildren();
  for (const { status, content } of agent.state.plan ?? []) {
    add($("plan"), "li", `${status}: ${content}`);
  }
  $("asks").replaceChildren();
  for (const { id, message, reason, metadata } of agent.pendingInterrupts) {
    const ask = add($("asks"), "p", message);
    const button = (label, payload) => {
      add(ask, "button", label).onclick = () => answer(id, payload);
    };
    if (reason === "tool_call") button("Allow", { approved: true });
    for (const { label } of metadata.question_asked?.questions[0].options ?? []) {
      button(label, { answers: [[label]] });
    }
    button("Refuse");
  }
}

// AG-UI wants all answers at once.
function answer(id, payload) {
  answers[id] = { interruptId: id, payload,
    status: payload ? "resolved" : "cancelled" };
  const resume = agent.pendingInterrupts.map((ask) => answers[ask.id]);
  if (resume.every(Boolean)) run({ resume });
}

async function run(parameters) {
  document.body.classList.add("running");
  $("error").textContent = "";
  await agent.runAgent(parameters, { onRunErrorEvent: fail,
    onEvent: () => { frame ??= requestAnimationFrame(show); } })
    .catch((error) => fail({ event: error.payload ?? error }));
  document.body.classList.remove("running");
  show();
}

function fail({ event }) {
  $("error").textContent = event.message;
}

$("form").onsubmit = (event) => {
  event.preventDefault();
  agent.addMessage({ id: crypto.randomUUID(), role: "user",
    content: $("prompt").value });
  $("prompt").value = "";
  run();
};
$("stop").onclick = () => fetch(`${url}/${threadId}/stop`, { method: "POST" });
onhashchange = () => location.reload();
run();
