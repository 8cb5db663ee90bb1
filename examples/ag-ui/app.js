// A chat with AG-UI's own client.  The thread's name is behind the "#" of the
// address: a page that is loaded again, or opened twice, joins its thread.
import { HttpAgent } from "@ag-ui/client";
import { $, show } from "./view.js";

const url = "/ag-ui";
const threadId = (location.hash ||= `#${crypto.randomUUID()}`).slice(1);
const agent = new HttpAgent({ url, threadId });

async function run(parameters) {
  const fail = ({ event }) => { $("error").textContent = event.message; };
  const timer = setInterval(show, 50, agent);
  document.body.className = "running";
  $("error").textContent = "";
  await agent.runAgent(parameters, { onRunErrorEvent: fail })
    .catch((error) => fail({ event: error.payload ?? error }));
  clearInterval(timer);
  document.body.className = agent.pendingInterrupts.length ? "asked" : "";
  show(agent);
}

$("asks").onsubmit = (event) => { // AG-UI wants all answers at once
  event.preventDefault();
  const chosen = new FormData(event.target);
  run({ resume: agent.pendingInterrupts.map(({ id, reason }) => ({
    interruptId: id,
    status: event.submitter.value, // the button: "resolved" or "cancelled"
    payload: reason === "tool_call" ? { reply: chosen.get(id) }
      : { answers: chosen.getAll(id).map((label) => [label]) },
  })) });
};

$("form").onsubmit = async (event) => {
  event.preventDefault();
  const content = [{ type: "text", text: $("prompt").value }];
  for (const file of $("files").files) {
    const reader = new FileReader();
    reader.readAsDataURL(file);
    await new Promise((resolve) => { reader.onload = resolve; });
    content.push({ type: "document", source: { type: "data",
      mimeType: file.type, value: reader.result.split(",")[1] } });
  }
  event.target.reset();
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  run();
};
$("stop").onclick = () => fetch(`${url}/${threadId}/stop`, { method: "POST" });
onhashchange = () => location.reload();
run();
