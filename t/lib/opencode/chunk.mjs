// Where to cut the bytes of an event stream, for every way in which a read can
// end.

const AT = {
    data: /(?<=^|\n)data:|(?<=(?:^|\n)da)ta:|(?<=\ndata):/g,
    newline: /\n/g,
    crlf: /\n/g,
    escape: /(?<=\\)./g,
    utf8: /[\x80-\xbf]/g,
};


export function chunks(bytes, how = 'event') {
    const [name, n] = how.split(':');

    if (name === 'whole' || name === 'event') {
        return [bytes];
    }

    return name === 'bytes' ? every(bytes, Number(n ?? 1))
                            : cut(bytes, boundaries(bytes, AT[name]));
}


/* SSE allows CRLF; only crlf splits between the two */

export function frame(line, how) {
    const eol = how === 'crlf' ? '\r\n' : '\n';

    return Buffer.from(`data: ${line}${eol}${eol}`);
}


function boundaries(bytes, at) {
    return [...bytes.toString('latin1').matchAll(at)].map((m) => m.index);
}


function every(bytes, n) {
    return cut(bytes, Array.from({ length: Math.ceil(bytes.length / n) - 1 },
                                 (_, i) => (i + 1) * n));
}


function cut(bytes, places) {
    return [0, ...places]
        .map((from, i) => bytes.subarray(from, places[i] ?? bytes.length))
        .filter((piece) => piece.length);
}
