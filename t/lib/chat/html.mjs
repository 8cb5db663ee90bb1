// The HTML of Telegram's parse_mode, read as strictly as Telegram reads it.
//
//     parse(html) -> { text, entities: [{ type, offset, length, url? }] },
//                    or throws an Error with Telegram's own words

const TAGS = {
    b: 'bold', strong: 'bold', i: 'italic', em: 'italic', u: 'underline',
    ins: 'underline', s: 'strikethrough', strike: 'strikethrough',
    del: 'strikethrough', 'tg-spoiler': 'spoiler', span: 'spoiler',
    a: 'text_link', code: 'code', pre: 'pre', blockquote: 'blockquote',
    'tg-emoji': 'custom_emoji',
};

const NAMED = { lt: '<', gt: '>', amp: '&', quot: '"' };


export function parse(html) {
    const entities = [];
    const open = [];
    let text = '';
    let i = 0;

    const offset = () => Buffer.byteLength(html.slice(0, i));

    while (i < html.length) {
        if (html[i] === '&') {
            const m = /^&(?:#(\d+)|#x([0-9a-f]+)|([a-z]+));?/i
                .exec(html.slice(i, i + 12));
            const ch = m && (m[3] ? NAMED[m[3]]
                : String.fromCodePoint(Number.parseInt(m[1] ?? m[2],
                                                       m[1] ? 10 : 16)));
            text += ch ?? '&';
            i += ch ? m[0].length : 1;
            continue;
        }

        if (html[i] !== '<') {
            text += html[i++];
            continue;
        }

        const close = /^<\/([^>\s]*)\s*>/.exec(html.slice(i));

        if (close) {
            const tag = open.pop();
            const name = close[1].toLowerCase();

            if (!tag) {
                throw new Error('Unexpected end tag at byte offset '
                                + offset());
            }

            if (name && name !== tag.name) {
                throw new Error(`Unmatched end tag at byte offset ${offset()},`
                    + ` expected "</${tag.name}>", found "</${name}>"`);
            }

            finish(tag, text, entities);
            i += close[0].length;
            continue;
        }

        const tag = start(html, i, offset);

        open.push({ ...tag, offset: text.length });
        i = tag.end;
    }

    if (open.length) {
        throw new Error("Can't find end tag corresponding to start tag "
                        + `"${open.pop().name}"`);
    }

    return trim(text, entities);
}


function start(html, at, offset) {
    const m = /^<([a-z0-9-]*)((?:\s+[a-z-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[a-z0-9.-]+))?)*)\s*(>?)/i
        .exec(html.slice(at));
    const name = m[1].toLowerCase();

    if (!TAGS[name]) {
        throw new Error(`Unsupported start tag "${name}" at byte offset `
                        + offset());
    }

    if (!m[3]) {
        throw new Error(`Unclosed start tag at byte offset ${offset()}`);
    }

    const attributes = {};

    for (const a of m[2].matchAll(/([a-z-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([a-z0-9.-]+)))?/gi)) {
        attributes[a[1].toLowerCase()] = a[2] ?? a[3] ?? a[4] ?? '';
    }

    if (name === 'span' && attributes.class !== 'tg-spoiler') {
        throw new Error(`Tag "span" must have class "tg-spoiler" at byte `
                        + `offset ${offset()}`);
    }

    return { name, attributes, end: at + m[0].length };
}


function finish(tag, text, entities) {
    const e = { type: TAGS[tag.name], offset: tag.offset,
                length: text.length - tag.offset };

    if (e.length === 0) {
        return;
    }

    if (tag.name === 'a') {
        const url = tag.attributes.href ?? text.slice(tag.offset);

        /* what is no link is shown without one */

        if (!/^(https?|tg|mailto|tel):/i.test(url)
            && !/^[\w-]+(\.[\w-]+)+/.test(url))
        {
            return;
        }

        e.url = url;
    }

    if (tag.name === 'blockquote' && 'expandable' in tag.attributes) {
        e.type = 'expandable_blockquote';
    }

    entities.push(e);
}


/* white space at the ends of a message does not count */

function trim(text, entities) {
    const end = text.trimEnd().length;
    const begin = text.length - text.trimStart().length;

    text = text.slice(begin, end);

    return { text, entities: entities.map((e) => {
        const from = Math.max(0, e.offset - begin);

        return { ...e, offset: from, length: Math.min(text.length,
            e.offset - begin + e.length) - from };
    }).filter((e) => e.length > 0) };
}


/* whom Telegram would notify: names that are neither code nor a link, and links
   to people */

export function mentions({ text, entities }) {
    const hidden = (i) => entities.some((e) =>
        ['code', 'pre', 'text_link'].includes(e.type)
        && i >= e.offset && i < e.offset + e.length);

    return [...text.matchAll(/(?<![\w])@([a-z]\w{3,})/gi)]
        .filter((m) => !hidden(m.index)).map((m) => m[0])
        .concat(entities.filter((e) => /^tg:/i.test(e.url ?? ''))
                        .map((e) => e.url));
}
