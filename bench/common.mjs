/*
 * What the programs of bench/ share: their options, the two that are compiled,
 * nginx and the fake OpenCode behind it, processes that are started, pinned and
 * ended, and what the kernel says of them.
 */

import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
export const BUILD = process.env.AGENTSTREAM_BUILD ?? path.join(ROOT, 'build');
export const MODULE = process.env.AGENTSTREAM_MODULE
    ?? path.join(BUILD, 'ngx_http_agentstream_module.so');
export const WORK = path.join(BUILD, 'bench');

const children = new Set();
let niceness = 0;

/* The fake and the client stand for machines of their own: where they share a
   core, none of them waits for the end of the other's time slice. */
const URGENCY = { opencode: 2, client: 1 };
let realtime = false;


/*
 * -> the options with their defaults: a boolean is a switch, a list is given
 * with commas, its elements are numbers if those of the default are
 */

export function parseOptions(args, defaults) {
    const out = { ...defaults };

    for (const arg of args) {
        const [, name, value] = /^--(\w+)(?:=(.+))?$/.exec(arg) ?? [];
        const known = Object.hasOwn(out, name) ? defaults[name] : undefined;

        if (typeof known === 'boolean' && value === undefined) {
            out[name] = true;

        } else if (typeof known === 'number' && Number.isFinite(+value)) {
            out[name] = +value;

        } else if (Array.isArray(known) && value) {
            out[name] = typeof known[0] === 'number'
                ? value.split(',').map(Number) : value.split(',');

        } else if (known instanceof RegExp && value) {
            out[name] = new RegExp(value);

        } else {
            fail(`unknown option ${arg}`);
        }
    }

    return out;
}


/* of all that is started from now on */

export function setNice(value) {
    niceness = value;
}


/* from now on, as far as we may; -> whether we may */

export function setRealtime() {
    try {
        execFileSync('chrt', ['--rr', '1', 'true'], { stdio: 'ignore' });
        realtime = true;
    } catch {
        /* not root, or no util-linux */
    }

    return realtime;
}


/* compiles the fake OpenCode and the load client, if they are not up to date */

export function compile() {
    fs.mkdirSync(WORK, { recursive: true });

    if (!fs.existsSync(MODULE)) {
        fail(`no ${path.relative(ROOT, MODULE)}: try "make"`);
    }

    for (const tool of ['taskset', 'cc']) {
        try {
            execFileSync('sh', ['-c', `command -v ${tool}`]);
        } catch {
            fail(`no ${tool}: try "apt-get install util-linux gcc"`);
        }
    }

    for (const [name, libs] of [['opencode', []], ['client', ['-lcurl']]]) {
        const program = path.join(WORK, name);
        const files = fs.readdirSync(path.join(ROOT, 'bench'))
            .filter((file) => file.startsWith(name) && /\.[ch]$/.test(file))
            .map((file) => path.join(ROOT, 'bench', file));

        if (fs.existsSync(program) && files.every((file) =>
            fs.statSync(program).mtimeMs > fs.statSync(file).mtimeMs))
        {
            continue;
        }

        try {
            execFileSync('cc', ['-O2', '-g', '-Wall', '-Wextra', '-o', program,
                ...files.filter((file) => file.endsWith('.c')), ...libs], { stdio: ['ignore', 'ignore', 'pipe'] });
        } catch (e) {
            if (/curl\.h/.test(e.stderr)) {
                fail('no libcurl headers: try '
                     + '"apt-get install libcurl4-openssl-dev"');
            }

            fail(`cannot compile ${name}\n${e.stderr}`);
        }
    }
}


export function fail(message) {
    console.error(`bench: ${message}`);
    process.exit(1);
}


/* An nginx and the fake OpenCode behind it */

export class Server {

    /* harness: the processors of the fake, cpus: those of nginx; upstream: the
       port of an OpenCode that runs already */

    constructor(name, harness, cpus, upstream) {
        this.name = name;
        this.upstream = upstream;
        this.harness = harness;
        this.cpus = cpus;
        this.dir = path.join(WORK, name);
    }

    async start() {
        this.port = await freePort();
        this.url = `http://127.0.0.1:${this.port}`;

        fs.mkdirSync(path.join(this.dir, 'temp'), { recursive: true });
        fs.rmSync(this.file('error.log'), { force: true });

        if (!this.upstream) {
            this.upstream = await freePort();
            this.fake = launchHarness('opencode', `${this.name}-opencode`,
                this.harness, [String(this.upstream)]);
            await listening(this.upstream, this.fake);
        }

        this.process = launch(this.name, this.cpus, this.command());
        await listening(this.port, this.process);
    }

    /* who is not measured does nothing, not even now and then */

    freeze(frozen) {
        for (const child of [this.fake, this.process].filter(Boolean)) {
            signalGroup(child, frozen ? 'SIGSTOP' : 'SIGCONT');
        }
    }

    async stop() {
        this.freeze(false);
        await end(this.process);

        if (this.fake) {
            await end(this.fake);
        }
    }

    file(name) {
        return path.join(this.dir, name);
    }

    command() {
        fs.writeFileSync(this.file('nginx.conf'), this.nginxConf(this.conf()));

        return [nginx(), '-p', this.dir, '-c', this.file('nginx.conf'),
                '-e', this.file('error.log')];
    }

    /* the processes that do the work */

    get pids() {
        return childrenOf(this.process.pid);
    }

    /* what the runs differ in: texts for places of the configuration, where
       "locations" replaces those of the module */

    nginxConf({ workers = 1, connections, level = 'info', listen = '',
                keepalive = 0, main = '', http = '', server = '',
                location = '', locations = null })
    {
        return `${locations === null ? `load_module ${MODULE};` : ''}
${process.getuid() === 0 ? 'user root;' : ''}
daemon off;
worker_processes ${workers};
pid nginx.pid;
error_log error.log ${level};
${main}
events { worker_connections ${connections}; }
http {
    access_log off;
    client_body_temp_path temp/body;
    proxy_temp_path temp/proxy;
    fastcgi_temp_path temp/fastcgi;
    uwsgi_temp_path temp/uwsgi;
    scgi_temp_path temp/scgi;
    ${http}
    server {
        listen 127.0.0.1:${this.port} ${listen};
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_read_timeout 1h;
        ${locations ?? `
        location /sessions {
            agentstream /opencode/;
            ${location}
        }
        location /opencode/ {
            internal;
            proxy_pass http://opencode/;
        }`}
        ${server}
    }
    upstream opencode {
        server 127.0.0.1:${this.upstream};
        ${keepalive ? `keepalive ${keepalive};` : ''}
    }
}
`;
    }

    /* lines of warn or worse */

    log() {
        return fs.readFileSync(this.file('error.log'), 'utf8')
            .split('\n').filter((line) =>
                / \[(warn|error|crit|alert|emerg)\] |exited on/.test(line));
    }
}


/* Processes and small things */

export function launch(name, cpu, command, stdout) {
    const log = fs.openSync(path.join(WORK, `${name}.log`), 'w');
    const child = spawn('taskset', ['-c', String(cpu), ...command],
        { stdio: ['ignore', stdout ?? log, log], detached: true });

    if (niceness) {
        /* the scheduler weighs sessions first, then processes */
        try {
            fs.writeFileSync(`/proc/${child.pid}/autogroup`,
                             String(niceness));
        } catch {
            /* no such thing here, or not allowed */
        }

        os.setPriority(child.pid, niceness);
    }

    fs.closeSync(log);
    children.add(child);
    child.log = path.join(WORK, `${name}.log`);
    child.on('exit', () => children.delete(child));

    return child;
}


/* one of the two that compile() made */

function launchHarness(program, name, cpu, args, stdout) {
    const urgent = realtime ? ['chrt', '--rr', String(URGENCY[program])] : [];

    return launch(name, cpu, [...urgent, path.join(WORK, program), ...args],
        stdout);
}


export async function end(child) {
    if (child.exitCode !== null || child.signalCode !== null) {
        return;
    }

    const gone = new Promise((resolve) => { child.on('exit', resolve); });

    child.kill('SIGTERM');
    await Promise.race([gone, sleep(3000)]);
    child.kill('SIGKILL');
}


export async function listening(port, child) {
    for (let i = 0; i < 300; i++) {
        if (child.exitCode !== null) {
            fail(`${child.spawnargs[3]} did not start, see ${child.log}`);
        }

        if (await new Promise((resolve) => {
            const socket = net.connect(port, '127.0.0.1', () => {
                socket.destroy();
                resolve(true);
            }).on('error', () => resolve(false));
        }))
        {
            return;
        }

        await sleep(50);
    }

    fail(`nothing listens, see ${child.log}`);
}


export function freePort() {
    return new Promise((resolve) => {
        const server = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();

            server.close(() => resolve(port));
        });
    });
}


export function get(url) {
    return new Promise((resolve, reject) => {
        http.get(url, (response) => {
            let text = '';

            response.setEncoding('utf8');
            response.on('data', (piece) => { text += piece; });
            response.on('end', () => resolve(text));
        }).on('error', reject);
    });
}


export function post(url, json) {
    return new Promise((resolve, reject) => {
        http.request(url, { method: 'POST' }, (response) => {
            response.resume();
            response.on('end', resolve);
        }).on('error', reject).end(JSON.stringify(json));
    });
}


export function sleep(ms) {
    return new Promise((resolve) => { setTimeout(resolve, ms); });
}


export function nginx() {
    return process.env.AGENTSTREAM_NGINX
        || ['/usr/sbin/nginx', '/usr/local/sbin/nginx', '/usr/bin/nginx']
            .find((file) => fs.existsSync(file)) || 'nginx';
}


export function allowedCpus() {
    const list = /Cpus_allowed_list:\s+(\S+)/.exec(
        fs.readFileSync('/proc/self/status', 'utf8'))[1];

    return list.split(',').flatMap((range) => {
        const [from, to = from] = range.split('-').map(Number);

        return Array.from({ length: to - from + 1 }, (_, i) => from + i);
    });
}


/*
 * Runs the load client with these options on these processors.
 * -> its result; held() is called when all streams have begun
 */

export async function runClient(name, cpu, options, held = () => {}) {
    const client = launchHarness('client', name, cpu,
        Object.entries(options).map(([key, value]) => `${key}=${value}`),
        'pipe');
    const lines = [];
    let holding = null;

    for await (const line of createInterface({ input: client.stdout })) {
        if (line === 'held') {
            holding = held(client.pid);

        } else {
            lines.push(line);
        }
    }

    await holding;

    return JSON.parse(lines.at(-1));
}


/* the children of a process: nginx's workers */

export function childrenOf(pid) {
    return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)
        && statOf(name)?.[1] === String(pid)).map(Number);
}


/* -> fields 3 and 4 of /proc/pid/stat: state, parent */

function statOf(pid) {
    try {
        return fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
            .replace(/^.*\) /, '').split(' ');
    } catch {
        return null;
    }
}


/* user and system time of these processes, in microseconds */

export function cpuOf(pids) {
    return schedstat(pids, 0);
}


/* ... and the time they were ready and had no processor */

export function delayOf(pids) {
    return schedstat(pids, 1);
}


function schedstat(pids, field) {
    let sum = 0;

    for (const pid of pids) {
        try {
            for (const task of fs.readdirSync(`/proc/${pid}/task`)) {
                const dir = `/proc/${pid}/task/${task}`;

                sum += Number(fs.readFileSync(`${dir}/schedstat`, 'utf8')
                    .split(' ')[field]) / 1000;
            }
        } catch {
            /* it ended */
        }
    }

    return sum;
}


/* what these hold alone; shared memory (the zone) apart, in kilobytes */

export function memoryOf(pids) {
    const sum = { anon: 0, shared: 0, fds: 0 };

    for (const pid of pids) {
        const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');

        sum.anon += Number(/RssAnon:\s+(\d+)/.exec(status)[1]);
        sum.shared += Number(/RssShmem:\s+(\d+)/.exec(status)[1]);
        sum.fds += fs.readdirSync(`/proc/${pid}/fd`).length;
    }

    return sum;
}


function killAll() {
    for (const child of children) {
        child.kill('SIGTERM');
        signalGroup(child, 'SIGCONT');
    }
}


/* the process and its own children */

function signalGroup(child, signal) {
    try {
        process.kill(-child.pid, signal);
    } catch {
        /* it is gone */
    }
}


for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
        killAll();
        process.exit(1);
    });
}

process.on('exit', killAll);
