/** A client for agentstream: OpenCode's turns as ACP packets over SSE. */

// ---- packets

/** `_meta` of a subagent's packets. */
export interface SubagentMeta {
  sessionId: string;
  parentSessionId: string;
}

export interface ToolMeta extends Partial<SubagentMeta> {
  toolName: string;
}

interface Base<T extends string> {
  type: T;
  /** ISO 8601 */
  timestamp: string;
  /** The event's id, `<turn id>:<seq>`; set by the client. */
  id?: string;
  _meta?: SubagentMeta | null;
}

export interface TextContent {
  type: "text";
  text: string;
  annotations?: null;
}

export interface ImageContent {
  type: "image";
  data: string;
  mimeType: string;
  annotations?: null;
}

export type ContentBlock =
  | TextContent
  | ImageContent
  | { type: "resource_link"; uri: string; name?: string; mimeType?: string }
  | {
      type: "resource";
      resource: { uri: string; text: string; mimeType?: string };
    };

export type ToolKind =
  | "execute"
  | "read"
  | "other"
  | "edit"
  | "search"
  | "fetch"
  | "think"
  | "delete"
  | "move"
  | "switch_mode";

export type ToolStatus = "pending" | "in_progress" | "completed" | "failed";

export type ToolContent =
  | { type: "content"; content: ContentBlock; _meta?: null }
  | { type: "diff"; path: string; oldText: string | null; newText: string };

export interface ToolCall {
  toolCallId: string;
  title: string;
  kind: ToolKind;
  status: ToolStatus;
  rawInput: Record<string, unknown>;
  rawOutput: {
    output?: string;
    error?: string;
    metadata?: Record<string, any>;
    attachments?: unknown[];
  } | null;
  content: ToolContent[] | null;
  locations: { path: string; line: number | null; _meta?: null }[] | null;
}

export interface TurnStarted extends Base<"turn_started"> {
  turnId: string;
  sessionId: string;
  messageId: string;
}

interface Chunk<T extends string> extends Base<T> {
  sessionUpdate: T;
  /** Not with `agentstream_packets core`. */
  messageId?: string;
  content: TextContent;
}

export type AgentMessageChunk = Chunk<"agent_message_chunk">;
export type AgentThoughtChunk = Chunk<"agent_thought_chunk">;

/** In the history only, never live. */
export interface UserMessageChunk extends Base<"user_message_chunk"> {
  sessionUpdate?: "user_message_chunk";
  messageId?: string | null;
  content: ContentBlock;
}

export interface ToolCallStart
  extends Omit<Base<"tool_call_start">, "_meta">,
    ToolCall {
  sessionUpdate: "tool_call";
  _meta: ToolMeta | null;
}

export interface ToolCallProgress
  extends Omit<Base<"tool_call_progress">, "_meta">,
    ToolCall {
  sessionUpdate: "tool_call_update";
  _meta: ToolMeta | null;
}

export interface PlanEntry {
  content: string;
  priority: "high" | "medium" | "low";
  status: "pending" | "in_progress" | "completed";
}

export interface AgentPlanUpdate extends Base<"agent_plan_update"> {
  sessionUpdate: "plan";
  entries: PlanEntry[];
}

export interface Question {
  question: string;
  header: string;
  options: { label: string; description: string }[];
  multiple?: boolean;
  custom?: boolean;
}

export interface QuestionAsked extends Base<"question_asked"> {
  questionId: string;
  questions: Question[];
  toolCallId: string | null;
}

export interface QuestionResolved extends Base<"question_resolved"> {
  questionId: string;
  outcome: "answered" | "rejected" | "unknown";
  answers: string[][] | null;
}

export type PermissionReply = "once" | "always" | "reject";

export interface RequestPermission extends Base<"request_permission"> {
  permissionId: string;
  permission: string;
  patterns: string[];
  toolCall: Pick<
    ToolCall,
    "toolCallId" | "title" | "kind" | "status" | "rawInput"
  >;
  options: {
    optionId: PermissionReply;
    name: string;
    kind: "allow_once" | "allow_always" | "reject_once";
  }[];
}

export interface PermissionResolved extends Base<"permission_resolved"> {
  permissionId: string;
  reply: PermissionReply | "unknown";
}

export interface SubagentStarted extends Base<"subagent_started"> {
  subagent_session_id: string;
  parent_session_id: string;
}

export interface SessionStatus extends Base<"session_status"> {
  status: "retry";
  attempt: number;
  message: string;
  /** When it is tried again, in ms since 1970. */
  next: number;
}

export interface ChunksDiscarded extends Base<"chunks_discarded"> {
  messageId: string;
  from: number;
  to: number;
}

export interface ContextUsage extends Base<"context_usage"> {
  used_tokens: number;
  cost: number;
  tokens: {
    total?: number;
    input: number;
    output: number;
    reasoning: number;
    cache: { read: number; write: number };
  };
}

export interface Compaction extends Base<"compaction"> {
  summary: string | null;
}

export interface Heartbeat extends Base<"heartbeat"> {
  elapsedMs: number;
  silentMs: number;
}

export interface StreamReset extends Base<"stream_reset"> {
  reason: string;
}

export interface Usage {
  totalTokens: number;
  inputTokens: number;
  outputTokens: number;
  thoughtTokens: number;
  cachedReadTokens: number;
  cachedWriteTokens: number;
}

export type StopReason = "end_turn" | "max_tokens" | "refusal" | "cancelled";

export interface PromptResponse extends Omit<Base<"prompt_response">, "_meta"> {
  stopReason: StopReason;
  /** Not with `agentstream_packets core`. */
  usage?: Usage | null;
  _meta: Record<string, never>;
}

export interface ErrorPacket extends Omit<Base<"error">, "_meta"> {
  message: string;
  code: number | null;
  details: Record<string, any> | null;
}

export type TerminalPacket = PromptResponse | ErrorPacket;

export type Packet =
  | TurnStarted
  | AgentMessageChunk
  | AgentThoughtChunk
  | UserMessageChunk
  | ToolCallStart
  | ToolCallProgress
  | AgentPlanUpdate
  | QuestionAsked
  | QuestionResolved
  | RequestPermission
  | PermissionResolved
  | SubagentStarted
  | SessionStatus
  | ChunksDiscarded
  | ContextUsage
  | Compaction
  | Heartbeat
  | StreamReset
  | TerminalPacket;

export function isTerminal(packet: Packet): packet is TerminalPacket;

/** Parses server-sent events whose data is a packet. */
export function parseEvents(
  body: ReadableStream<Uint8Array>,
  touch?: () => void,
): AsyncGenerator<Packet, void>;

// ---- client

/** The server said no, or the connection is lost for good. */
export class AgentStreamError extends Error {
  constructor(message: string, status?: number, packet?: ErrorPacket | null);
  /** HTTP status; 0 without an answer; 410 when the turn is no longer kept. */
  status: number;
  packet: ErrorPacket | null;
}

export interface ClientOptions {
  /** Where the routes are: a path, in Node a whole URL. Default `/sessions`. */
  base?: string;
  fetch?: typeof fetch;
  /** Sent with every request; a function is asked every time. */
  headers?:
    | Record<string, string>
    | (() => Record<string, string> | Promise<Record<string, string>>);
  /** Failures in a row before a stream gives up. Default 10. */
  retries?: number;
  /** Milliseconds of the first pause. Default 500. */
  minDelay?: number;
  /** Milliseconds of the longest pause. Default 15000. */
  maxDelay?: number;
  /** Milliseconds without a byte after which to reconnect. Default 45000. */
  silence?: number;
}

export interface StreamOptions {
  signal?: AbortSignal;
  onConnection?(
    state: "live" | "resuming",
    info?: { attempt: number; delay: number },
  ): void;
}

export interface MessageFields {
  model?: { providerID: string; modelID: string };
  agent?: string;
  system?: string;
  variant?: string;
  tools?: Record<string, boolean>;
  /** Idempotency; chosen at random if not given. */
  client_request_id?: string;
}

export interface WaitOptions extends StreamOptions {
  /** Seconds to wait for the end of the turn. Default: until it ends. */
  wait?: number;
}

export interface AnswerOptions extends WaitOptions {
  /** This turn. Default: the running one, or the last one that is kept. */
  turnId?: string;
}

/** The whole answer of a turn that is over. */
export interface Answer {
  turnId: string;
  sessionId: string;
  stopReason: StopReason;
  usage: Usage | null;
  /** What the agent said in all steps, without its subagents. */
  text: string;
  /** The last state of each call. */
  toolCalls: (ToolCallStart | ToolCallProgress)[];
  plan: PlanEntry[] | null;
  /** OpenCode's own messages of this turn. */
  messages: Record<string, any>[];
  running?: undefined;
}

/** A turn that is not over yet. */
export interface Running {
  turnId: string;
  sessionId: string;
  running: true;
}

/** A turn that has begun, and may be over already. */
export interface Started {
  turnId: string;
  /** The real id, also where the session was given by its name. */
  sessionId: string;
  running: boolean;
}

export type Content = string | ContentBlock[] | Record<string, unknown>;

export interface AttachOptions extends StreamOptions {
  /** Go on behind this packet; `<turn id>:0`: all packets of that turn. */
  lastEventId?: string | null;
  /** Stay for the session's next turns. */
  follow?: boolean;
}

/** OpenCode's session object. */
export interface Session {
  id: string;
  title: string;
  directory: string;
  parentID?: string;
  time: { created: number; updated: number };
  [key: string]: unknown;
}

export interface Model {
  providerID: string;
  modelID: string;
  /** Names for people. */
  provider: string;
  name: string;
}

export interface Agent {
  name: string;
  description: string;
}

export interface SessionInit {
  /** 1 to 80 of `A-Z a-z 0-9 . _ : ~ -`: the session of that name, new or not. */
  name?: string;
  title?: string;
  agent?: string;
  model?: { providerID: string; modelID: string };
}

/**
 * A session is named by its id, or by `@` and its name. `sendMessage`, `run`
 * and `start` create the session of a name.
 */
export interface Client {
  createSession(init?: SessionInit): Promise<Session>;
  listSessions(): Promise<Session[]>;
  getSession(session: string): Promise<Session>;
  renameSession(session: string, title: string): Promise<Session>;
  deleteSession(session: string): Promise<unknown>;
  /** What a message can choose; empty where it has no choice. */
  models(): Promise<Model[]>;
  agents(): Promise<Agent[]>;
  turn(session: string): Promise<Record<string, any>>;
  /** The whole history. */
  messages(session: string): Promise<Packet[]>;
  /**
   * Runs a turn. The request is made when iteration begins; a connection that
   * breaks is resumed, and the last packet is the terminal one.
   */
  sendMessage(
    session: string,
    content: Content,
    options?: StreamOptions & MessageFields,
  ): AsyncGenerator<Packet, void>;
  /**
   * Runs a turn and gives its whole answer, or, after `wait` seconds, a turn
   * that is still running. A request whose response is lost is repeated, and
   * gets the same turn. A turn that fails throws.
   */
  run(
    session: string,
    content: Content,
    options: WaitOptions & MessageFields & { wait: number },
  ): Promise<Answer | Running>;
  run(
    session: string,
    content: Content,
    options?: WaitOptions & MessageFields,
  ): Promise<Answer>;
  /** Starts a turn: done as soon as OpenCode has the prompt. */
  start(
    session: string,
    content: Content,
    options?: StreamOptions & MessageFields,
  ): Promise<Started>;
  /** Waits for a turn that was started; null if there is none. */
  answer(
    session: string,
    options: AnswerOptions & { wait: number },
  ): Promise<Answer | Running | null>;
  answer(session: string, options?: AnswerOptions): Promise<Answer | null>;
  /** The running turn, or the last one while it is retained. */
  attach(session: string, options?: AttachOptions): AsyncGenerator<Packet, void>;
  interrupt(session: string): Promise<{ interrupted: boolean }>;
  /** One list of labels (or own words) per question. */
  answerQuestion(
    session: string,
    question: string,
    answers: string[][],
  ): Promise<unknown>;
  rejectQuestion(session: string, question: string): Promise<unknown>;
  answerPermission(
    session: string,
    permission: string,
    reply: PermissionReply,
    message?: string,
  ): Promise<unknown>;
}

export function createClient(options?: ClientOptions): Client;

// ---- reducer

interface Item<T extends string> {
  type: T;
  id?: string | null;
  /** Timestamps of the first and the last packet of it. */
  at: string;
  endedAt: string;
  /** Grows with every change. */
  rev: number;
}

export interface UserItem extends Item<"user"> {
  content: ContentBlock[];
}

export interface TextItem extends Item<"message" | "thought"> {
  messageId: string | null;
  text: string;
  chunks: [seq: number, text: string][];
}

export interface ToolItem extends Item<"tool"> {
  id: string;
  /** OpenCode's name of the tool. */
  name: string;
  /** The latest packet of the call. */
  call: ToolCallStart | ToolCallProgress;
  /** The turn ended before the call did. */
  stopped?: boolean;
}

export interface QuestionItem extends Item<"question"> {
  id: string;
  packet: QuestionAsked;
  waiting: boolean;
  /** Absent, and not waiting: the turn ended first. */
  outcome?: QuestionResolved;
}

export interface PermissionItem extends Item<"permission"> {
  id: string;
  packet: RequestPermission;
  waiting: boolean;
  outcome?: PermissionResolved;
}

/** What one session says. */
export interface Thread {
  items: TimelineItem[];
  plan: PlanEntry[];
  context: ContextUsage | null;
  rev: number;
}

export interface SubagentItem extends Item<"subagent">, Thread {
  id: string;
  rev: number;
  parentId: string;
  /** The task call it works for, as far as known. */
  toolCallId?: string;
}

export interface CompactionItem extends Item<"compaction"> {
  summary: string | null;
}

export interface EndItem extends Item<"end"> {
  end: TerminalPacket;
  startedAt?: string;
}

export type TimelineItem =
  | UserItem
  | TextItem
  | ToolItem
  | QuestionItem
  | PermissionItem
  | SubagentItem
  | CompactionItem
  | EndItem;

export interface State extends Thread {
  status: "idle" | "running" | "error";
  turn: TurnStarted | null;
  /** The turn's terminal packet: stop reason and usage, or the error. */
  end: TerminalPacket | null;
  /** The agent retries, or is silent; null again at the next packet. */
  notice: SessionStatus | Heartbeat | null;
  lastEventId: string | null;
  /** Of the latest turn, by id. */
  tools: Map<string, ToolItem>;
  subagents: Map<string, SubagentItem>;
  /** Questions and permission requests without an answer yet. */
  waiting: Map<string, QuestionItem | PermissionItem>;
}

export function initialState(): State;

/** Folds a packet into the state, in place, and returns it. */
export function reduce(state: State, packet: Packet): State;

/** Folds what `messages()` gives. */
export function reduceHistory(state: State, packets: Packet[]): State;
