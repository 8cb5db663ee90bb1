// A chat with an agent: useChat of the AI SDK, and no server code.  The chat's
// id is in the address, so that a reload, or another tab, shows the same chat.
import { useChat } from "@ai-sdk/react";
import { validParts } from "agentstream/ai-sdk";
import { lastAssistantMessageIsCompleteWithApprovalResponses as approved,
  lastAssistantMessageIsCompleteWithToolCalls as answered } from "ai";
import { useEffect } from "react";
import { createRoot } from "react-dom/client";
import { Part } from "./part.jsx";

const id = (location.hash ||= `#${crypto.randomUUID()}`).slice(1);
const stored = JSON.parse(localStorage.getItem(id) ?? "[]");

// files are too large for localStorage, so that only their names are kept
const small = (key, value) =>
  value?.type === "file" ? { ...value, url: undefined } : value;

function Chat() {
  const chat = useChat({ id, resume: true, messages: stored,
    sendAutomaticallyWhen: (chat) => approved(chat) || answered(chat) });
  const { messages, status, error } = chat;
  const stop = () => fetch(`/api/chat/${id}/stop`, { method: "POST" });
  const send = (event) => {
    event.preventDefault();
    const { text, files } = event.target;
    chat.sendMessage({ text: text.value, files: files.files });
    event.target.reset();
  };

  useEffect(() => localStorage.setItem(id, JSON.stringify(messages, small)),
    [messages]);

  return <>
    {messages.map(({ id, role, parts }) => <section key={id} className={role}>
      {validParts(parts).map((part, i) =>
        <Part key={i} part={part} chat={chat} />)}
    </section>)}
    {error && <p className="error">{error.message}</p>}
    <form onSubmit={send}>
      <textarea name="text" rows="3" required placeholder="Message" />
      <input name="files" type="file" multiple />
      <button disabled={status === "streaming"}>Send</button>
      <button type="button" id="stop" onClick={stop}>Stop</button> {status}
    </form>
  </>;
}

createRoot(document.getElementById("chat")).render(<Chat />);
