// A chat with AG-UI's own client.  The thread's name is behind the "#" of the
// address: a page that is loaded again, or opened twice, joins its thread.
import { HttpAgent } from "@ag-ui/client";

const url = "/ag-ui", answers = {};
const threadId = (location.hash ||= `#${crypto.randomUUID()}`).slice(1);
const agent = new HttpAgent({ url, threadId });
const $ = (id) => document.getElementById(id);
let frame;

function element(tag, properties, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

function show() {
  frame = undefined;
  $("messages").replaceChildren(...agent.messages.flatMap(({ role, content, toolCalls }) =>
    role === "activity" ? [] : [ // which also replaces a text that was taken back
      ...content ? [element("p", { className: role }, content)] : [],
      ...(toolCalls ?? []).map(({ function: f }) =>
        element("p", { className: "call" }, `${f.name} ${f.arguments}`))]));
  $("plan").replaceChildren(...(agent.state.plan ?? []).map(({ status, content }) =>
    element("li", {}, `${status}: ${content}`)));
  $("asks").replaceChildren(...agent.pendingInterrupts.map(({ id, message, reason, metadata }) => {
    const button = (label, payload) =>
      element("button", { onclick: () => answer(id, payload) }, label);
    return element("p", {}, message,
      ...reason === "tool_call" ? [button("Allow", { approved: true })] : [],
      ...(metadata.question_asked?.questions[0].options ?? []).map(({ label }) =>
        button(label, { answers: [[label]] })), button("Refuse"));
  }));
}

function answer(id, payload) { // AG-UI wants all answers at once
  answers[id] = { interruptId: id, payload, status: payload ? "resolved" : "cancelled" };
  const resume = agent.pendingInterrupts.map((ask) => answers[ask.id]);
  if (resume.every(Boolean)) run({ resume });
}

async function run(parameters) {
  const fail = ({ event }) => { $("error").textContent = event.message; };
  document.body.classList.add("running");
  $("error").textContent = "";
  await agent.runAgent(parameters, { onRunErrorEvent: fail,
    onEvent: () => { frame ??= requestAnimationFrame(show); } })
    .catch((error) => fail({ event: error.payload ?? error }));
  document.body.classList.remove("running");
  show();
}

$("form").onsubmit = (event) => {
  event.preventDefault();
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: $("prompt").value });
  $("prompt").value = "";
  run();
};
$("stop").onclick = () => fetch(`${url}/${threadId}/stop`, { method: "POST" });
onhashchange = () => location.reload();
run();
