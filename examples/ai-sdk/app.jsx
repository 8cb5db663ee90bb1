// A chat with an agent: useChat of the AI SDK, and no server code.  The chat's id
// is in the address, so that a reload, or another tab, shows the same chat.
import { useChat } from "@ai-sdk/react";
import { isToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses as approved,
  lastAssistantMessageIsCompleteWithToolCalls as answered } from "ai";
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

const id = (location.hash ||= `#${crypto.randomUUID()}`).slice(1);

function Part({ part, chat }) {
  const button = (label, onClick) => <button key={label} onClick={onClick}>{label}</button>;
  const approve = (label, approved) => button(label, () =>
    chat.addToolApprovalResponse({ id: part.approval.id, approved }));

  if (part.type === "text") return <div className="text">{part.text}</div>;
  if (part.type === "reasoning") return <div className="reasoning">{part.text}</div>;
  if (part.type === "file") return <img src={part.url} alt="" />;
  if (part.type === "data-plan") return <ul>{part.data.entries.map((entry, i) =>
    <li key={i} className={entry.status}>{entry.content}</li>)}</ul>;
  if (!isToolUIPart(part)) return null;

  return <pre className={part.state}>
    {part.toolName} {JSON.stringify(part.input)}{"\n"}{part.output?.output ?? part.errorText}
    {part.state === "approval-requested" && [approve("Allow", true), approve("Deny", false)]}
    {part.state === "input-available" && part.providerExecuted === false
      && part.input.questions.flatMap(({ question, options }) => [question, ...options.map(
        ({ label }) => button(label, () => chat.addToolOutput({ tool: "question",
          toolCallId: part.toolCallId, output: label })))])}
  </pre>;
}

// what was discarded is void, see docs/protocols.md
function valid(parts) {
  const gone = parts.filter(({ type }) => type === "data-discarded");
  const seq = (part) => part.providerMetadata?.agentstream?.seq;
  return parts.slice(parts.findLastIndex(({ type }) => type === "data-reset") + 1)
    .filter((part) => !gone.some(({ data }) => seq(part) >= data.from && seq(part) <= data.to));
}

function Chat() {
  const [text, setText] = useState("");
  const chat = useChat({ id, resume: true, messages: JSON.parse(localStorage.getItem(id) ?? "[]"),
    sendAutomaticallyWhen: (options) => approved(options) || answered(options) });
  const send = (event) => { event.preventDefault(); chat.sendMessage({ text }); setText(""); };
  const stop = () => fetch(`/api/chat/${id}/stop`, { method: "POST" });
  useEffect(() => localStorage.setItem(id, JSON.stringify(chat.messages)), [chat.messages]);

  return <>
    {chat.messages.map((message) => <section key={message.id} className={message.role}>
      {valid(message.parts).map((part, i) => <Part key={i} part={part} chat={chat} />)}
    </section>)}
    {chat.error && <p className="error">{chat.error.message}</p>}
    <form onSubmit={send}>
      <textarea rows="3" value={text} onChange={(event) => setText(event.target.value)} />
      <button disabled={chat.status === "streaming"}>Send</button>
      <button type="button" id="stop" onClick={stop}>Stop</button> {chat.status}
    </form>
  </>;
}

createRoot(document.getElementById("chat")).render(<Chat />);
