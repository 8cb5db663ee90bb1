#!/usr/bin/env node
// Reference translator: what must a client see of the turns in t/data/captures?  Independent of the module's code.
//
//   node util/expected.mjs                writes t/data/expected/NAME.jsonl from t/data/captures, checks them, prints a summary
//   node util/expected.mjs check          the same without writing: fails if a stored expectation differs
//   node util/expected.mjs import DIR     copies captures from a fixtures directory first (and unwraps /global/event where needed)
//
// It works offline and with hindsight: it holds the whole capture and OpenCode's stored messages (roles, part types, summaries),
// looks at each text part, each tool call and each kind of event by itself, and sorts what comes out by the event that caused
// it. There is no streaming state, so it errs in other places than the module does.
//
// One line per packet: {"turn": n, "session": root, "packet": {...}}, sorted by session and turn. Normalisation:
// - no timestamps, no `id:` (seq is the position within the turn, from 1);
// - turnId and messageId of the user message are those of the capture ("*": the capture has none); a replay maps its own id;
// - `all` packets, `seed` kinds, `agentstream_tool_throttle 0`: every changed visible state of a tool, unchanged ones never;
// - chunks: one per delta. Who cannot promise that (polling, reconnect) joins neighbouring chunks of the same type,
//   messageId and _meta on both sides before comparing: join() does that;
// - no heartbeat, no keepalive, no stream_reset: they depend on time only;
// - key order means nothing; null, absent, {} and [] are four different things.
// The rules are in t/data/expected/DECISIONS.md; numbers in comments refer to it.

import fs from 'node:fs'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'

const data = path.join(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '..', 't', 'data')
const captures = path.join(data, 'captures')
const expected = path.join(data, 'expected')
const json = f => JSON.parse(fs.readFileSync(f, 'utf8'))
const frames = f => fs.readFileSync(f, 'utf8').split('\n').filter(l => l.startsWith('data: ')).map(l => JSON.parse(l.slice(6)))

// ---------------------------------------------------------------- the capture as a whole

// { name, sessions, streams: [[event]], stored: {session: [{info, parts}]} }
function load(name) {
  const files = fs.readdirSync(captures).filter(f => f === `${name}.event.sse` || (f.startsWith(`${name}.`) && f.endsWith('.event.sse'))).sort()
  return {
    name,
    sessions: json(path.join(captures, `${name}.json`)).sessions,
    streams: files.map(f => frames(path.join(captures, f))),
    stored: json(path.join(captures, `${name}.messages.json`)),
  }
}

const isIdle = (e, sid) => e.type === 'session.status' && e.properties.sessionID === sid && e.properties.status.type === 'idle'
const info = e => e.type === 'message.updated' ? e.properties.info : null

// The turns of a root session: the events between its user message and its end (19, 23).
function turns(cap, session) {
  const found = []
  const prompts = session.turns.filter(t => t.prompt !== undefined)
  const users = cap.stored[session.id].filter(m => m.info.role === 'user')
  let from = 0
  for (const { prompt } of prompts) {
    const at = users.findIndex((m, i) => i >= from && m.parts.some(p => p.type === 'text' && p.text === prompt))
    if (at < 0) {                                       // unknown-agent: the prompt never became a message
      const events = cap.streams[0]
      const end = events.findIndex(e => e.type === 'session.error' && e.properties.sessionID === session.id)
      found.push({ id: '*', events: events.slice(0, end + 1) })
      continue
    }
    from = at + 1
    const id = users[at].info.id
    const events = cap.streams.find(s => s.some(e => info(e)?.id === id))
    const start = events.findIndex(e => info(e)?.id === id)
    if (found.some(t => t.events.includes(events[start]))) continue                     // busy-prompt: inside a running turn
    const others = users.filter((m, i) => i > at && prompts.some(t => m.parts.some(p => p.type === 'text' && p.text === t.prompt))
      && m.parts.every(p => p.text !== prompt)).map(m => m.info.id)
    const end = events.findIndex((e, i) => i > start && (others.includes(info(e)?.parentID)
      || (isIdle(e, session.id) && settled(events.slice(start, i), session.id))))
    if (end < 0) throw Error(`${cap.name}: turn ${id} has no end`)
    found.push({ id, events: events.slice(start, end + (isIdle(events[end], session.id) ? 1 : 0)) })
  }
  return found
}

// All assistant messages of the root that began are completed.
function settled(events, sid) {
  const last = new Map()
  for (const e of events) if (info(e)?.role === 'assistant' && info(e).sessionID === sid) last.set(info(e).id, info(e))
  return [...last.values()].every(m => m.time.completed)
}

// ---------------------------------------------------------------- one turn

const text = t => ({ type: 'text', text: t, annotations: null })
const block = content => ({ type: 'content', content, _meta: null })
const num = v => typeof v === 'number' ? v : 0
const str = v => typeof v === 'string' && v !== ''

const kind = tool => ['bash', 'shell'].includes(tool) ? 'execute' : tool === 'read' ? 'read' : 'other'
const used = t => num(t.total) || num(t.input) + num(t.output) + num(t.reasoning) + num(t.cache?.read) + num(t.cache?.write)

function translate(cap, root, turn) {
  const { events } = turn
  const out = []                                        // [index of the causing event, packet]
  const put = (i, packet) => out.push([i, packet])

  // the family: root and what descends from it
  const family = new Set([root])
  events.forEach((e, i) => {
    const parent = e.type === 'session.created' ? e.properties.info.parentID : null
    if (!parent || !family.has(parent)) return
    family.add(e.properties.info.id)
    put(i, { type: 'subagent_started', subagent_session_id: e.properties.info.id, parent_session_id: parent, _meta: null })
  })
  const tag = sid => sid === root ? null : { sessionId: sid, parentSessionId: root }

  // hindsight: what every message was
  const messages = new Map()
  for (const e of events) if (info(e)) messages.set(info(e).id, info(e))
  for (const list of Object.values(cap.stored)) for (const m of list) messages.set(m.info.id, { ...messages.get(m.info.id), ...m.info })
  const speaks = id => messages.get(id)?.role === 'assistant' && !messages.get(id).summary

  const of = (type, f) => events.forEach((e, i) => {
    if (e.type === type && family.has(e.properties.sessionID)) f(e.properties, i)
  })

  put(-1, { type: 'turn_started', turnId: turn.id, sessionId: root, messageId: turn.id, _meta: null })

  // text and reasoning, part by part (7, 8)
  const parts = new Map()
  const part = id => parts.get(id) ?? parts.set(id, { id, history: [] }).get(id)
  of('message.part.updated', (p, i) => { Object.assign(part(p.part.id), { last: p.part }).history.push([i, p.part]) })
  of('message.part.delta', (p, i) => { if (p.field === 'text') part(p.partID).history.push([i, p.delta]) })
  for (const { history } of parts.values()) history.sort((a, b) => a[0] - b[0])
  for (const { last, history } of parts.values()) {
    const type = { text: 'agent_message_chunk', reasoning: 'agent_thought_chunk' }[last?.type]
    if (!type || !speaks(last.messageID) || last.synthetic || last.ignored) continue
    let sent = ''
    for (const [i, what] of history) {
      let piece
      if (typeof what === 'string') piece = what
      else if (what.text.startsWith(sent)) piece = what.text.slice(sent.length)
      else if (what.time?.end) throw Error(`${cap.name}: part ${last.id} contradicts its deltas; not expected in these captures`)
      else piece = ''
      if (piece) put(i, { type, sessionUpdate: type, messageId: last.messageID, content: text(piece), _meta: tag(last.sessionID) })
      sent += piece
    }
  }

  // tool calls, part by part (9-16)
  const ids = new Map()
  for (const { last, history } of parts.values()) {
    if (last?.type !== 'tool' || !speaks(last.messageID)) continue
    if (ids.has(last.callID)) throw Error(`${cap.name}: call id ${last.callID} repeated; not expected in these captures`)
    ids.set(last.callID, last.id)
    const [first, { tool }] = history[0]
    const meta = name => ({ toolName: name, ...tag(last.sessionID) })
    const start = {
      type: 'tool_call_start', sessionUpdate: 'tool_call', toolCallId: last.callID, title: tool, kind: kind(tool), status: 'pending',
      rawInput: {}, rawOutput: null, content: null, locations: [], _meta: meta(tool),
    }
    put(first, start)
    let before = { ...start, type: 'tool_call_progress', sessionUpdate: 'tool_call_update' }, rank = 0
    for (const [i, p] of history) {
      const now = { ...before, ...progress(p.tool, p.state), _meta: meta(p.tool) }
      const r = { pending: 0, in_progress: 1, completed: 2, failed: 2 }[now.status]
      if (rank === 2 || r < rank || isDeepStrictEqual(now, before)) continue
      put(i, now)
      before = now
      rank = r
    }
  }

  of('todo.updated', (p, i) => put(i, {
    type: 'agent_plan_update', sessionUpdate: 'plan',
    entries: p.todos.map(t => ({
      content: t.content,
      priority: ['high', 'medium', 'low'].includes(t.priority) ? t.priority : 'medium',
      status: { in_progress: 'in_progress', completed: 'completed', cancelled: 'completed' }[t.status] ?? 'pending',
    })),
    _meta: tag(p.sessionID),
  }))

  of('question.asked', (p, i) => put(i, {
    type: 'question_asked', questionId: p.id, questions: p.questions, toolCallId: p.tool?.callID ?? null, _meta: tag(p.sessionID),
  }))
  of('question.replied', (p, i) => put(i, {
    type: 'question_resolved', questionId: p.requestID, outcome: 'answered', answers: p.answers, _meta: tag(p.sessionID),
  }))
  of('question.rejected', (p, i) => put(i, {
    type: 'question_resolved', questionId: p.requestID, outcome: 'rejected', answers: null, _meta: tag(p.sessionID),
  }))

  of('permission.asked', (p, i) => put(i, {
    type: 'request_permission', permissionId: p.id, permission: p.permission, patterns: p.patterns,
    toolCall: { toolCallId: p.tool?.callID ?? p.id, title: p.permission, kind: kind(p.permission), status: 'pending', rawInput: p.metadata ?? {} },
    options: [
      { optionId: 'once', name: 'Allow once', kind: 'allow_once' },
      { optionId: 'always', name: 'Always allow', kind: 'allow_always' },
      { optionId: 'reject', name: 'Reject', kind: 'reject_once' },
    ],
    _meta: tag(p.sessionID),
  }))
  of('permission.replied', (p, i) => put(i, { type: 'permission_resolved', permissionId: p.requestID, reply: p.reply, _meta: tag(p.sessionID) }))

  of('session.status', (p, i) => {
    const { type, attempt, message, next } = p.status
    if (type === 'retry') put(i, { type: 'session_status', status: 'retry', attempt, message, next, _meta: tag(p.sessionID) })
  })

  // the stored summary of the compaction that was the latest before this event
  of('session.compacted', (p, i) => {
    const known = new Set(events.slice(0, i).map(e => info(e)?.id))
    const summary = cap.stored[p.sessionID].filter(m => m.info.role === 'assistant' && m.info.summary && known.has(m.info.id)).at(-1)
    put(i, { type: 'compaction', summary: summary ? stored(summary, 'text') : null, _meta: tag(p.sessionID) })
  })

  // usage (18)
  const counted = new Map()
  of('message.updated', ({ info: m, sessionID }, i) => {
    if (!speaks(m.id) || !used(m.tokens) || isDeepStrictEqual(counted.get(m.id), [m.tokens, m.cost])) return
    counted.set(m.id, [m.tokens, m.cost])
    put(i, { type: 'context_usage', used_tokens: used(m.tokens), cost: m.cost, tokens: m.tokens, _meta: tag(sessionID) })
  })

  put(events.length, ending(events, root))
  return out.sort((a, b) => a[0] - b[0]).map(([, packet]) => packet)        // stable: a start stays before its progress
}

// One state of a tool part as the client sees it.
function progress(tool, state) {
  const input = state.input ?? {}
  const file = [input.filePath, input.path].find(str)
  const finder = ['read', 'edit', 'write', 'list', 'glob', 'grep'].includes(tool)
  const places = finder && file ? [{ path: file, line: null, _meta: null }] : []
  const blocks = (...list) => { const b = list.flat().filter(Boolean); return b.length ? b : null }
  const words = t => str(t) && block(text(t))
  const p = { title: str(state.title) ? state.title : tool, kind: kind(tool), rawInput: input, rawOutput: null, content: null }
  switch (state.status) {
    case 'pending':
      return { ...p, status: 'pending', locations: [] }
    case 'running':
      return { ...p, status: 'in_progress', content: blocks(kind(tool) === 'execute' && words(state.metadata?.output)), locations: places }
    case 'error':
      return {
        ...p, status: 'failed', content: blocks(words(state.error)), locations: places,
        rawOutput: { error: state.error, ...('metadata' in state && { metadata: state.metadata }) },
      }
    case 'completed':
      return {
        ...p, status: 'completed', content: blocks(words(state.output), diff(tool, input), images(state.attachments)), locations: finder ? places : null,
        rawOutput: { output: state.output ?? '', metadata: state.metadata ?? {}, ...('attachments' in state && { attachments: state.attachments }) },
      }
  }
  throw Error(`unknown state ${state.status}`)
}

function diff(tool, input) {
  const [oldText, newText] = { edit: [input.oldString, input.newString], write: [null, input.content] }[tool] ?? []
  return typeof newText === 'string' && str(input.filePath) && { type: 'diff', path: input.filePath, oldText: oldText ?? null, newText }
}

function images(list) {
  return (list ?? []).flatMap(a => {
    const m = /^data:[^,]*;base64,(.*)$/s.exec(a.url ?? '')
    return m && a.mime?.startsWith('image/') ? [block({ type: 'image', data: m[1], mimeType: a.mime, annotations: null })] : []
  })
}

// OpenCode's message without the provider's answer in it; undefined: nothing is left (21).
function said({ message, responseBody }) {
  const body = (responseBody ?? '').trim()
  if (body && message.trim().endsWith(body)) message = message.trim().slice(0, -body.length)
  const [, head, tail] = /^(.*?)(\{\s*".*\})\s*$/s.exec(message ?? '') ?? [null, message]
  if (!tail || head.trim()) return head?.trim().replace(/:$/, '') || undefined
  const inner = JSON.parse(tail)
  return inner.message ?? inner.error?.message
}

// The terminal packet (20-22).
function ending(events, root) {
  const mine = events.filter(e => e.properties.sessionID === root)
  const answers = mine.filter(e => info(e)?.role === 'assistant').map(info)
  const last = answers.at(-1)
  const began = last ? mine.findIndex(e => info(e)?.id === last.id) : -1
  const errors = mine.slice(began + 1).filter(e => e.type === 'session.error').map(e => e.properties.error)
  if (last?.error) errors.push(last.error)
  const error = errors.find(e => e.name === 'MessageAbortedError') ?? errors[0]
  const byError = { MessageAbortedError: 'cancelled', ContentFilterError: 'refusal', MessageOutputLengthError: 'max_tokens' }[error?.name]
  if (error && !byError) {
    const { statusCode, providerID, modelID, isRetryable } = error.data ?? {}
    const message = said(error.data ?? {})
    const details = { name: error.name, message, statusCode, providerID, modelID, isRetryable }
    for (const key in details) if (details[key] === undefined) delete details[key]
    return { type: 'error', message: message ?? error.name, code: statusCode ?? null, details }
  }
  const byFinish = { length: 'max_tokens', 'content-filter': 'refusal' }[last?.finish] ?? 'end_turn'
  const tokens = [...new Map(answers.map(m => [m.id, m.tokens])).values()]
  const sum = f => tokens.reduce((n, t) => n + num(f(t)), 0)
  const usage = {
    totalTokens: sum(used), inputTokens: sum(t => t.input), outputTokens: sum(t => t.output), thoughtTokens: sum(t => t.reasoning),
    cachedReadTokens: sum(t => t.cache?.read), cachedWriteTokens: sum(t => t.cache?.write),
  }
  return { type: 'prompt_response', stopReason: byError ?? byFinish, usage: Object.values(usage).some(Boolean) ? usage : null, _meta: {} }
}

// ---------------------------------------------------------------- comparing and checking

const stored = (m, type) => m.parts.filter(p => p.type === type && !p.synthetic && !p.ignored).map(p => p.text).join('')

// Joins neighbouring chunks of the same type, message and session.
export function join(packets) {
  const out = []
  for (const p of packets) {
    const q = out.at(-1)
    if (q?.type === p.type && p.type.endsWith('_chunk') && q.messageId === p.messageId && isDeepStrictEqual(q._meta, p._meta)) {
      out[out.length - 1] = { ...q, content: text(q.content.text + p.content.text) }
    } else out.push(p)
  }
  return out
}

// What `agentstream_packets core` leaves of a packet; null: nothing.
export function core(packet) {
  const five = ['agent_message_chunk', 'tool_call_start', 'tool_call_progress', 'prompt_response', 'error']
  if (!five.includes(packet.type) || packet._meta?.sessionId) return null
  const { messageId, usage, ...rest } = packet
  if (Array.isArray(rest.content)) {
    const texts = rest.content.filter(b => b.content?.type === 'text')
    rest.content = texts.length ? texts : null
  }
  return '_meta' in rest && rest.type !== 'prompt_response' ? { ...rest, _meta: null } : rest
}

// Properties that hold whatever the translation looks like: against what OpenCode stored. Returns complaints.
function verify(cap, lines) {
  const bad = []
  const says = (ok, what) => { if (!ok) bad.push(`${cap.name}: ${what}`) }
  const byTurn = new Map()
  for (const { turn, session, packet } of lines) {
    const key = `${session} turn ${turn}`
    byTurn.set(key, [...byTurn.get(key) ?? [], packet])
  }
  for (const [key, packets] of byTurn) {
    const terminal = packets.filter(p => p.type === 'prompt_response' || p.type === 'error')
    says(packets[0].type === 'turn_started' && packets.filter(p => p.type === 'turn_started').length === 1, `${key}: turn_started is not the first`)
    says(terminal.length === 1 && packets.at(-1) === terminal[0], `${key}: not exactly one terminal packet at the end`)
  }
  const all = lines.map(l => l.packet)
  const last = new Map()
  const started = new Set(all.filter(p => p.type === 'turn_started').map(p => p.turnId))
  const foreign = new Set(cap.sessions.flatMap(s => cap.stored[s.id]                     // prompts that are nobody's turn (23)
    .filter(m => m.info.role === 'user' && !started.has(m.info.id) && s.turns.filter(t => m.parts.some(p => p.text === t.prompt)).length
      && !all.some(p => p.type === 'compaction')).map(m => m.info.id)))
  for (const list of Object.values(cap.stored)) {
    for (const m of list) {
      for (const [type, chunk] of [['text', 'agent_message_chunk'], ['reasoning', 'agent_thought_chunk']]) {
        const sent = all.filter(p => p.type === chunk && p.messageId === m.info.id).map(p => p.content.text).join('')
        const ours = m.info.role === 'assistant' && !m.info.summary && !foreign.has(m.info.parentID)
        const want = ours ? stored(m, type) : ''
        says(sent === want, `message ${m.info.id}: ${type} differs from the stored one`)
      }
      for (const p of m.parts.filter(p => p.type === 'tool')) last.set(p.callID, p)
    }
  }
  const calls = new Map()
  for (const p of all.filter(p => p.type.startsWith('tool_call_'))) {
    calls.set(p.toolCallId, [...calls.get(p.toolCallId) ?? [], p])
  }
  says(calls.size === last.size, `${calls.size} calls sent, ${last.size} stored`)
  const order = ['pending', 'in_progress', 'completed', 'failed']
  for (const [id, list] of calls) {
    const part = last.get(id), end = list.at(-1)
    says(part, `call ${id} is not stored`)
    says(list[0].type === 'tool_call_start' && list.slice(1).every(p => p.type === 'tool_call_progress'), `call ${id}: start is not once and first`)
    says(list.every((p, i) => !i || order.indexOf(p.status) >= order.indexOf(list[i - 1].status)), `call ${id}: goes back`)
    says(list.filter(p => ['completed', 'failed'].includes(p.status)).length === 1, `call ${id}: not one terminal state`)
    says(end.status === { completed: 'completed', error: 'failed' }[part?.state.status], `call ${id}: ends ${end.status}`)
    says(isDeepStrictEqual(end.rawInput, part?.state.input), `call ${id}: input differs`)
    says((end.rawOutput.output ?? end.rawOutput.error) === (part?.state.output ?? part?.state.error), `call ${id}: output differs`)
  }
  return bad
}

// ---------------------------------------------------------------- running it

function importFrom(dir) {
  fs.mkdirSync(captures, { recursive: true })
  const write = (f, text) => fs.writeFileSync(path.join(captures, f), text)
  for (const f of fs.readdirSync(dir)) {
    if (/\.(event\.sse|json)$/.test(f) && f !== 'index.json') write(f, fs.readFileSync(path.join(dir, f)))
  }
  // A second /event connection: what /global/event said about that directory, from event number `after` of the wrapped stream on.
  const unwrap = (name, file, directory, after) => write(file, [{ id: 'evt_unwrapped', type: 'server.connected', properties: {} }]
    .concat(frames(path.join(dir, `${name}.global.sse`)).filter((e, i, a) => e.directory === directory && e.payload.type !== 'sync' && i > after(a)).map(e => e.payload))
    .map(e => `data: ${JSON.stringify(e)}\n\n`).join(''))
  unwrap('two-directories', 'two-directories.other.event.sse', '/workspace/other', () => -1)
  unwrap('instance-dispose', 'instance-dispose.2.event.sse', '/workspace/demo', a => a.findIndex(e => e.payload.type === 'server.instance.disposed'))
}

function main([mode, dir]) {
  if (mode === 'import') importFrom(dir)
  const names = fs.readdirSync(captures).filter(f => f.endsWith('.messages.json')).map(f => f.slice(0, -'.messages.json'.length)).sort()
  let bad = [], total = 0, turnCount = 0
  for (const name of names) {
    const cap = load(name)
    const lines = cap.sessions.flatMap(s => turns(cap, s).flatMap((t, n) =>
      translate(cap, s.id, t).map(packet => ({ turn: n + 1, session: s.id, packet }))))
    if (!lines.length) { console.log(`${name.padEnd(24)} no turn`); continue }
    const body = lines.map(l => JSON.stringify(l) + '\n').join('')
    const file = path.join(expected, `${name}.jsonl`)
    if (mode !== 'check') fs.writeFileSync(file, body)
    else if (!fs.existsSync(file) || fs.readFileSync(file, 'utf8') !== body) bad.push(`${name}: the stored expectation differs`)
    bad = bad.concat(verify(cap, lines))
    const ends = lines.filter(l => ['prompt_response', 'error'].includes(l.packet.type)).map(({ packet: p }) => p.stopReason ?? `error ${p.code}`)
    total += lines.length
    turnCount += ends.length
    console.log(`${name.padEnd(24)} ${String(lines.length).padStart(4)} packets  ${ends.join(', ')}`)
  }
  console.log(`${names.length} captures, ${turnCount} turns, ${total} packets, ${bad.length} complaints`)
  for (const b of bad) console.error(b)
  process.exitCode = bad.length ? 1 : 0
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fs.realpathSync(new URL(import.meta.url).pathname)) main(process.argv.slice(2))
