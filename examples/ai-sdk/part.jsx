// A part of a message: a text, a thought, a file, a tool call, a subagent, or
// the plan.
import { isToolUIPart } from "ai";

// a tool call with its output, and what the user has to say about it
function Tool({ part, chat }) {
  const { toolCallId, toolName, state, input, output, errorText } = part;
  const questions = state === "input-available"
    && part.providerExecuted === false && input.questions;
  const approve = (approved) => () =>
    chat.addToolApprovalResponse({ id: part.approval.id, approved });
  const answer = (event) => {
    event.preventDefault();
    chat.addToolOutput({ tool: toolName, toolCallId,
      output: [...new FormData(event.target).values()] });
  };

  return <pre className={state}>
    {toolName} {JSON.stringify(input)}{"\n"}{output?.output ?? errorText}
    {state === "approval-requested" && <p>
      <button onClick={approve(true)}>Allow</button>
      <button onClick={approve(false)}>Deny</button>
    </p>}
    {questions && <form onSubmit={answer}>
      {questions.map(({ question, options }, i) => <label key={i}>
        {question} <select name={i}>{options.map(({ label }) =>
          <option key={label}>{label}</option>)}</select>
      </label>)}
      <button>Answer</button>
    </form>}
  </pre>;
}

export function Part({ part, chat }) {
  const { type, text, url, filename, data } = part;

  if (isToolUIPart(part)) return <Tool part={part} chat={chat} />;
  if (type === "file") return <img src={url} alt={filename} />;
  if (type === "data-subagent") return <p className="subagent">
    Subagent {part.id}</p>;
  if (type === "data-plan") return <ul>{data.entries.map((entry, i) =>
    <li key={i} className={entry.status}>{entry.content}</li>)}</ul>;
  return text && <div className={type}>{text}</div>;
}
