#!/usr/bin/perl

# The client library as an npm package: what it holds, its types in strict mode,
# and that it works as it is installed, in Node.js 18 and 20, through a bundler,
# and in a browser.
#
# Broken by: a test or a picture in the package; a file that package.json
# forgets; a type that is looser than the code or stricter; something that Node
# 18 does not have; an import with side effects.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use File::Path qw(make_path);

my $json = JSON::PP->new->utf8->canonical;
my $client = "$FindBin::Bin/../console/client";
my $build = AgentStream->build();
my $judges = "$build/npm-client/node_modules";
my $console = "$build/npm-console/node_modules";

plan(skip_all => 'no TypeScript: try "util/deps test"')
    unless -d "$judges/typescript";

my $t = AgentStream->new(timeout => 240,
    server => 'location / { types { text/javascript js; text/html html; } }');
my $dir = "$t->{dir}/html";
my $package = "$dir/node_modules/agentstream";

make_path($package);
packed();
strict_types();
nodes();
bundled();
browser();

$t->done();


# a program's output; its failure is reported

sub run {
    my ($name, @command) = @_;

    CORE::open my $fh, '-|', 'sh', '-c', 'exec "$@" 2>&1', 'sh', @command
        or die "@command: $!\n";

    my $output = do { local $/; <$fh> } // '';

    ok(close $fh, $name) or diag(substr $output, 0, 2000);

    return $output;
}


sub write_file {
    my ($path, $text) = @_;

    CORE::open my $fh, '>', $path or die "$path: $!\n";
    print $fh $text;
    close $fh;
}


sub packed {
    my $told = run('npm pack', 'npm', 'pack', $client, '--json',
                   '--loglevel=error', '--offline', '--ignore-scripts',
                   "--pack-destination=$t->{dir}");
    my $list = eval { $json->decode($told =~ s{^[^\[]*}{}r) };
    my $made = $list ? $list->[0] : {};

    is(join(' ', sort map { $_->{path} } @{ $made->{files} // [] }),
       'LICENSE README.md agentstream.d.ts agentstream.js ai-sdk.d.ts ai-sdk.js'
       . ' package.json', 'what it holds');
    run('it can be unpacked', 'tar', 'xzf', "$t->{dir}/$made->{filename}",
        '-C', $package, '--strip-components=1');

    my $slurp = \&AgentStream::Process::slurp;

    is($slurp->("$package/LICENSE"), $slurp->("$FindBin::Bin/../LICENSE"),
       'the licence is the project\'s');

    my $about = $json->decode($slurp->("$package/package.json"));

    is_deeply($about->{exports}, {
        '.' => { types => './agentstream.d.ts', default => './agentstream.js' },
        './ai-sdk' => { types => './ai-sdk.d.ts', default => './ai-sdk.js' } },
        'two modules, with types');
    ok(!$about->{dependencies} && !$about->{scripts}{install}
       && !$about->{scripts}{postinstall}, 'nothing else is installed or run');
}


sub strict_types {
    write_file("$dir/package.json", '{"type":"module"}');
    run('a program with types', 'cp', "$client/test/types/strict.ts",
        "$dir/strict.ts");

    for (['nodenext', 'nodenext'], ['esnext', 'bundler']) {
        my ($module, $resolution) = @$_;

        run("types: strict, $resolution", "$judges/.bin/tsc", '--noEmit',
            '--strict', '--exactOptionalPropertyTypes',
            '--noUncheckedIndexedAccess', '--target', 'es2022',
            '--lib', 'es2022,dom,dom.iterable',
            '--module', $module, '--moduleResolution', $resolution,
            "$dir/strict.ts");
    }
}


sub nodes {
    write_file("$dir/program.mjs", <<'EOF');
import { createClient, initialState, reduce } from "agentstream";

const client = createClient({ base: process.argv[2], minDelay: 20 });
const state = initialState();

for await (const packet of client.sendMessage("@p", "text:4:8:5")) {
  reduce(state, packet);
}

const { stopReason, text } = await client.run("@p", "text:4:8:5");
const { turnId } = await client.start("@p", "text:4:8:5");
const later = await client.answer("@p", { turnId });

console.log(state.end.stopReason, state.items[0].text.length > 0, stopReason,
  text.length > 0, later.turnId === turnId);
EOF

    for my $version (18, 20) {
        my ($node) = glob "$judges/node$version-*/bin/node";

        SKIP: {
            skip "no Node.js $version for this machine", 4 unless $node;

            like(run("Node.js $version", $node, '--version'), qr/^v$version\./,
                 "it is Node.js $version");
            is(run("Node.js $version: a program", $node, "$dir/program.mjs",
                   "http://127.0.0.1:$t->{port}/sessions"),
               "end_turn true end_turn true true\n",
               "Node.js $version: what it prints");
            run("Node.js $version: the unit tests", $node, '--test',
                glob "$client/test/*.test.mjs");
        }
    }
}


sub bundled {
    SKIP: {
        skip 'no esbuild: try "util/deps console"', 4
            unless -x "$console/.bin/esbuild";

        my @bundle = ("$console/.bin/esbuild", '--bundle', '--minify',
                      '--log-level=error');

        write_file("$dir/one.js",
                   'import { isTerminal } from "agentstream";'
                   . 'globalThis.x = isTerminal;');
        cmp_ok(length run('a bundler', @bundle, '--format=esm',
                          "$dir/one.js"), '<', 500,
               'takes only what is used');

        write_file("$dir/all.js",
                   'import * as agentstream from "agentstream";'
                   . 'globalThis.agentstream = agentstream;');
        run('a bundle for browsers', @bundle, '--format=iife',
            '--platform=browser', '--target=chrome100,firefox104,safari15.4',
            "--outfile=$dir/bundle.js", "$dir/all.js");
        cmp_ok(-s "$dir/bundle.js", '>', 3000, 'has all of it');
    }
}


# the module itself, and the bundle of it

sub browser {
    SKIP: {
        skip 'no chromium', 2 unless -x '/usr/bin/chromium'
            && -d "$console/playwright-core" && -e "$dir/bundle.js";

        write_file("$dir/page.html", '<!doctype html><title>x</title>'
                                     . '<script src="bundle.js"></script>');
        write_file("$dir/browser.mjs", <<'EOF');
import { createRequire } from "node:module";

const [modules, base] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/_`)("playwright-core");
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu",
    "--disable-background-networking", "--disable-dev-shm-usage"],
});
const page = await browser.newPage();

await page.goto(`${base}/page.html`);

for (const kind of ["module", "bundle"]) {
  console.log(kind, await page.evaluate(async (kind) => {
    const { createClient } = kind === "module"
      ? await import("/node_modules/agentstream/agentstream.js")
      : globalThis.agentstream;
    const { stopReason, text } =
      await createClient().run(`@${kind}`, "text:4:8:5");

    return `${stopReason} ${text.length > 0}`;
  }, kind));
}

await browser.close();
EOF
        is(run('a browser', 'node', "$dir/browser.mjs", $console,
               "http://127.0.0.1:$t->{port}"),
           "module end_turn true\nbundle end_turn true\n",
           'the module and the bundle run there');
    }
}
