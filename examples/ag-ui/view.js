// Draws what AG-UI's client has: its messages, the plan, and what is asked.
export const $ = (id) => document.getElementById(id);

function element(tag, properties, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// a message is a text, a user's text with files, a tool call, or its result
function line({ role, content, toolCalls, metadata, subagentRunId }) {
  const className = [toolCalls ? "call" : role, metadata?.status,
    subagentRunId && "subagent"].filter(Boolean).join(" ");
  const texts = toolCalls
    ? toolCalls.map((call) => Object.values(call.function).join(" "))
    : [content].flat().map((part) =>
      part.text ?? part.source?.mimeType ?? part);

  return element("p", { className }, texts.join("\n"));
}

// a question has several parts with options; a permission request is one
function choices({ id, message, metadata }) {
  const { question_asked: asked, request_permission: wanted } = metadata;

  return (asked?.questions ?? [{ question: message, ...wanted }])
    .map(({ question, options }) => element("label", {}, question,
      element("select", { name: id }, ...options.map(({ label, optionId }) =>
        new Option(label ?? optionId)))));
}

export function show({ messages, state, pendingInterrupts }) {
  // an activity is in the place of a text that was taken back
  $("messages").replaceChildren(...messages
    .filter(({ role }) => role !== "activity").map(line));
  $("plan").replaceChildren(...(state.plan ?? []).map(({ status, content }) =>
    element("li", { className: status }, content)));
  $("choices").replaceChildren(...pendingInterrupts.flatMap(choices));
}
