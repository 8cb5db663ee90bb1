// OpenCode's stored state, as its REST answers show it.  It is built from the
// events themselves, so it is also right in the middle of a turn (a streaming
// part has text "").

export class State {

    constructor() {
        this.sessions = new Map();
        this.status = new Map();
        this.asked = { question: new Map(), permission: new Map() };
    }

    /* what is not stored, of one session or of all */

    forget(id) {
        for (const sid of id ? [id] : [...this.status.keys()]) {
            this.status.delete(sid);
        }

        for (const asked of Object.values(this.asked)) {
            for (const [key, { sessionID }] of asked) {
                if (!id || sessionID === id) {
                    asked.delete(key);
                }
            }
        }
    }

    /* every well-formed id is a session, unless it says that it is not */

    session(id, directory) {
        if (!this.sessions.has(id)) {
            if (!/^ses_(?!unknown)[0-9A-Za-z]+$/.test(id)) {
                return null;
            }

            this.create({ id, directory });
        }

        return this.sessions.get(id);
    }

    create(info) {
        const time = { created: Date.now(), updated: Date.now() };
        const session = { title: 'scripted', version: '1.18.33', time,
                          ...info };

        this.sessions.set(info.id, session);
        Object.defineProperty(session, 'messages', { value: new Map() });

        return session;
    }

    apply({ line, type, sid }) {
        if (type === 'message.part.delta' || sid === undefined) {
            return;
        }

        const session = this.session(sid);
        const p = JSON.parse(line).properties;
        const [, noun, verb] =
            /^(question|permission)\.(\w+)$/.exec(type) ?? [];

        if (noun) {
            verb === 'asked' ? this.asked[noun].set(p.id, p)
                             : this.asked[noun].delete(p.requestID);
            return;
        }

        switch (type) {

        case 'session.created':
            this.create(p.info);
            break;

        case 'session.status':
            p.status.type === 'idle' ? this.status.delete(sid)
                                     : this.status.set(sid, p.status);
            break;

        case 'message.updated':
            message(session, p.info.id).info = p.info;
            break;

        case 'message.part.updated':
            message(session, p.part.messageID).parts.set(p.part.id, p.part);
            break;

        case 'message.part.removed':
            message(session, p.messageID).parts.delete(p.partID);
            break;

        case 'message.removed':
            session.messages.delete(p.messageID);
            break;
        }
    }

    /* what a capture says was stored in the end */

    settle(messages) {
        for (const [id, list] of Object.entries(messages)) {
            for (const { info, parts } of list) {
                const m = this.sessions.get(id)?.messages.get(info.id);

                if (m) {
                    m.info = info;
                    m.parts = new Map(parts.map((p) => [p.id, p]));
                }
            }
        }
    }

    messages(session) {
        return [...session.messages.values()].filter((m) => m.info)
            .map((m) => ({ info: m.info, parts: [...m.parts.values()] }));
    }
}


function message(session, id) {
    if (!session.messages.has(id)) {
        session.messages.set(id, { info: null, parts: new Map() });
    }

    return session.messages.get(id);
}
