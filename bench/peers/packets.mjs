// Turns OpenCode's events into packets, as far as the benchmark's turns need
// it, with the same fields in the same order as the module (docs/protocol.md).
// The Node peers share it; they differ in how they read events and write
// packets.

const THROTTLE = 200;


export class Translator {

    constructor(session, turn, send) {
        this.session = session;
        this.turn = turn;
        this.send = send;       /* (type, fields) */
        this.roles = new Map();
        this.parts = new Map(); /* text parts of the assistant */
        this.calls = new Map();
        this.usage = new Map();
        this.ended = false;
    }

    start() {
        this.send('turn_started', { turnId: this.turn,
            sessionId: this.session, messageId: this.turn, _meta: null });
    }

    event({ type, properties: p }) {
        switch (type) {

        case 'message.updated':
            this.message(p.info);
            break;

        case 'message.part.updated':
            this.part(p.part);
            break;

        case 'message.part.delta':
            if (p.field === 'text') {
                this.text(p.partID, p.messageID, p.delta);
            }

            break;

        case 'session.idle':
            if (this.roles.has(this.turn)) {
                this.finish();
            }

            break;
        }
    }

    message(info) {
        this.roles.set(info.id, info.role);

        if (info.role !== 'assistant' || !info.finish
            || this.usage.has(info.id))
        {
            return;
        }

        this.usage.set(info.id, info.tokens);
        this.send('context_usage', { used_tokens: info.tokens.total,
            cost: info.cost, tokens: info.tokens, _meta: null });
    }

    part(part) {
        if (this.roles.get(part.messageID) !== 'assistant') {
            return;
        }

        if (part.type === 'text') {
            const known = this.parts.get(part.id);

            if (known === undefined) {
                this.parts.set(part.id, part.text.length);

            } else if (part.text.length > known) {
                this.text(part.id, part.messageID, part.text.slice(known));
            }

        } else if (part.type === 'tool') {
            this.tool(part);
        }
    }

    text(part, message, delta) {
        const known = this.parts.get(part);

        if (known === undefined) {
            return;
        }

        this.parts.set(part, known + delta.length);
        this.send('agent_message_chunk', {
            sessionUpdate: 'agent_message_chunk', messageId: message,
            content: { type: 'text', text: delta, annotations: null },
            _meta: null });
    }

    tool({ callID, tool, state }) {
        let call = this.calls.get(callID);

        if (!call) {
            call = { sent: 0, timer: null, shown: '' };
            this.calls.set(callID, call);
            this.progress('tool_call_start', 'tool_call', callID, tool, {},
                          'pending', null, null, []);
        }

        clearTimeout(call.timer);
        call.timer = null;

        if (state.status === 'running') {
            const left = call.sent + THROTTLE - Date.now();

            if (left > 0) {
                call.timer = setTimeout(() => this.running(callID, tool,
                                                           state, call), left);
                return;
            }

            this.running(callID, tool, state, call);

        } else if (state.status === 'completed') {
            this.progress('tool_call_progress', 'tool_call_update', callID,
                state.title || tool, state.input, 'completed',
                { output: state.output, metadata: state.metadata },
                content(state.output), null, tool);
        }
    }

    running(callID, tool, state, call) {
        const output = state.metadata?.output ?? '';

        if (call.sent && output === call.shown) {
            return;
        }

        call.sent = Date.now();
        call.shown = output;
        this.progress('tool_call_progress', 'tool_call_update', callID, tool,
            state.input, 'in_progress', null,
            output ? content(output) : null, []);
    }

    progress(type, update, toolCallId, title, rawInput, status, rawOutput,
        shown, locations, toolName = title)
    {
        this.send(type, { sessionUpdate: update, toolCallId, title,
            kind: toolName === 'bash' ? 'execute' : 'other', status, rawInput,
            rawOutput, content: shown, locations, _meta: { toolName } });
    }

    finish() {
        const sum = (get) => [...this.usage.values()].reduce(
            (n, tokens) => n + get(tokens), 0);

        this.ended = true;
        this.send('prompt_response', { stopReason: 'end_turn', usage: {
            totalTokens: sum((t) => t.total), inputTokens: sum((t) => t.input),
            outputTokens: sum((t) => t.output),
            thoughtTokens: sum((t) => t.reasoning),
            cachedReadTokens: sum((t) => t.cache.read),
            cachedWriteTokens: sum((t) => t.cache.write) }, _meta: {} });
    }

    close() {
        for (const call of this.calls.values()) {
            clearTimeout(call.timer);
        }
    }
}


function content(text) {
    return [{ type: 'content', content: { type: 'text', text,
        annotations: null }, _meta: null }];
}


let counter = 0;

/* a message id in OpenCode's form */

export function messageId() {
    const n = (BigInt(Date.now()) * 4096n + BigInt(++counter % 4096))
        & 0xffffffffffffn;

    return 'msg_' + n.toString(16).padStart(12, '0')
        + Math.random().toString(36).slice(2, 12).padEnd(14, '0');
}


/* POST /sessions/{id}/send-message, everything else is 404 */

export function route(request) {
    const m = /^\/sessions\/(ses_\w+)\/send-message$/.exec(request.url);

    return request.method === 'POST' && m ? m[1] : null;
}


export async function body(request) {
    let text = '';

    request.setEncoding('utf8');

    for await (const piece of request) {
        text += piece;
    }

    return JSON.parse(text);
}


export const HEADERS = {
    'Content-Type': 'text/event-stream',
    'Cache-Control': 'no-cache',
    'X-Accel-Buffering': 'no',
};
