#!/usr/bin/perl

# What a client may say in a prompt, and what OpenCode then gets, to the byte;
# everything else is refused with 400, by the name of the field at fault, and
# OpenCode is not asked at all.
#
# Broken by: a block that becomes another part, a text escaped twice or not at
# all, a field that is dropped or invented, a check left out of prompt.c, a
# refusal that does not say which field, or comes after the first call.

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use Encode qw(decode FB_CROAK);

no warnings 'qw';

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $t = AgentStream->new();

# name, body, what OpenCode gets besides messageID

my $hi = '{"type":"text","text":"hi"}';

my @accepted = (
    ['a string', '{"content":"hi"}', qq({"parts":[$hi]})],
    ['a string with everything in it',
     '{"content":"a\u00e9é😀\ud83d\ude00 \" \\\\ \/ \n\t\u0001 \u2028"}',
     '{"parts":[{"type":"text",'
     . '"text":"a\u00e9é😀\ud83d\ude00 \" \\\\ \/ \n\t\u0001 \u2028"}]}'],
    ['white space around and between', " {\r\n \"content\" :\t\"hi\" }\n ",
     qq({"parts":[$hi]})],
    ['an escaped name', '{"cont\u0065nt":"hi"}', qq({"parts":[$hi]})],

    ['text', qq({"content":[$hi]}), qq({"parts":[$hi]})],
    ['texts', qq({"content":[$hi,{"text":"","type":"text"},$hi]}),
     qq({"parts":[$hi,{"type":"text","text":""},$hi]})],
    ['annotations and _meta, which ACP allows everywhere',
     '{"content":[{"type":"text","text":"hi","annotations":null,'
     . '"_meta":{"x":[1]}}]}', qq({"parts":[$hi]})],

    ['image', '{"content":[{"type":"image","mimeType":"image/png",'
     . '"data":"iVBO+/8="}]}',
     '{"parts":[{"type":"file","mime":"image/png",'
     . '"url":"data:image/png;base64,iVBO+/8="}]}'],
    ['image with escaped slashes', '{"content":[{"type":"image",'
     . '"mimeType":"image\/png","data":"iVBO+\/8="}]}',
     '{"parts":[{"type":"file","mime":"image/png",'
     . '"url":"data:image/png;base64,iVBO+/8="}]}'],
    ['image by a long type', '{"content":[{"type":"image",'
     . '"mimeType":"image/svg+xml","data":"AA=="}]}',
     '{"parts":[{"type":"file","mime":"image/svg+xml",'
     . '"url":"data:image/svg+xml;base64,AA=="}]}'],

    ['link to a file', '{"content":[{"type":"resource_link",'
     . '"uri":"file:///w/a%20b.c","name":"a \"b\".c","mimeType":"text/x-c"}]}',
     '{"parts":[{"type":"file","mime":"text/x-c","filename":"a \"b\".c",'
     . '"url":"file:///w/a%20b.c"}]}'],
    ['link to a file and no more',
     '{"content":[{"type":"resource_link","uri":"file:///w/a"}]}',
     '{"parts":[{"type":"file","mime":"text/plain","url":"file:///w/a"}]}'],
    ['link with a tempting name', '{"content":[{"type":"resource_link",'
     . '"uri":"file:///w/a","name":"\",\"url\":\"file:///etc/passwd"}]}',
     '{"parts":[{"type":"file","mime":"text/plain",'
     . '"filename":"\",\"url\":\"file:///etc/passwd","url":"file:///w/a"}]}'],
    ['link to elsewhere', '{"content":[{"type":"resource_link",'
     . '"uri":"https://example.org/?a=\"b\"","name":"x"}]}',
     '{"parts":[{"type":"text","text":"https://example.org/?a=\"b\""}]}'],

    ['resource of text', '{"content":[{"type":"resource","resource":'
     . '{"uri":"file:///w/a","mimeType":"text/plain","text":"a\nb"}}]}',
     '{"parts":[{"type":"text","text":"a\nb"}]}'],
    ['resource of bytes', '{"content":[{"type":"resource","resource":'
     . '{"uri":"file:///w/a","mimeType":"application/pdf","blob":"JVBE"}}]}',
     '{"parts":[{"type":"file","mime":"application/pdf",'
     . '"url":"data:application/pdf;base64,JVBE"}]}'],
    ['blocks of all kinds', qq({"content":[$hi,{"type":"image",)
     . '"mimeType":"image/gif","data":"R0lG"},{"type":"resource_link",'
     . '"uri":"file:///w/a","name":"a"},{"type":"resource","resource":'
     . '{"uri":"x:y","text":"z"}}]}',
     qq({"parts":[$hi,{"type":"file","mime":"image/gif",)
     . '"url":"data:image/gif;base64,R0lG"},{"type":"file",'
     . '"mime":"text/plain","filename":"a","url":"file:///w/a"},'
     . '{"type":"text","text":"z"}]}'],

    ['parts, as they are', qq({"parts":[$hi,{"type":"file","mime":"a/b",)
     . '"url":"file:///w/a","filename":"a","source":{"type":"file",'
     . '"x":[null,1.50,-0]}},'
     . '{"type":"agent","name":"general"},{"type":"subtask","prompt":"p",'
     . '"description":"d","agent":"general"}]}',
     qq({"parts":[$hi,{"type":"file","mime":"a/b",)
     . '"url":"file:///w/a","filename":"a","source":{"type":"file",'
     . '"x":[null,1.50,-0]}},'
     . '{"type":"agent","name":"general"},{"type":"subtask","prompt":"p",'
     . '"description":"d","agent":"general"}]}'],

    ['everything beside it', '{"model":{"providerID":"p","modelID":"m/1"},'
     . '"agent":"plan","system":"Be \"brief\".","variant":"high",'
     . '"tools":{"bash":false,"*":true},"content":"hi",'
     . '"client_request_id":"r1"}',
     '{"model":{"providerID":"p","modelID":"m/1"},'
     . '"agent":"plan","system":"Be \"brief\".","variant":"high",'
     . qq("tools":{"bash":false,"*":true},"parts":[$hi]})],
    ['half a pair, and line ends', qq({"tools":{},\r\n"parts":[\n$hi],)
     . '"system":"\ud83d"}',
     qq({"tools":{},"parts":[ $hi],"system":"\\ufffd"})],
    ['no tools said', '{"content":"hi","tools":{}}',
     qq({"parts":[$hi],"tools":{}})],
    ['the model the other way round',
     '{"content":"hi","model":{"modelID":"m","providerID":"p"}}',
     qq({"parts":[$hi],"model":{"providerID":"p","modelID":"m"}})],
    ['a long request id', '{"content":"hi","client_request_id":"'
     . 'r' x 128 . '"}', qq({"parts":[$hi]})],
);

for my $case (@accepted) {
    my ($name, $body, $expected) = @$case;
    my $session = $t->session();

    $t->control('config', { sessions => { $session => '/w' } });

    my $c = post($session, $body);

    my ($prompt) = grep { $_->{url} =~ m{^/session/$session/prompt_async} }
                   @{ $t->control('log') };

    if (!check_turn($c, $name) || !$prompt) {
        ok($prompt, "$name: reached OpenCode") or diag($c->body());
        next;
    }

    my $got = decode('UTF-8', encoded($prompt->{body}));
    my $id = $got =~ s/^\{"messageID":"(msg_\w+)",/{/ ? $1 : 'none';

    is($id, turn_id($c), "$name: the turn's id goes first");
    is($got, $expected, "$name: what OpenCode gets");
}

# body, the field that the message names

my $block = sub { sprintf '{"content":[%s]}', join ',', @_ };
my $with = sub { sprintf '{"content":"hi",%s}', $_[0] };
my $png = '"type":"image","mimeType":"image/png"';

my @refused = (
    # the body as a whole
    ['', 'body'], ['null', 'body'], ['"hi"', 'body'], ['[]', 'body'],
    ['{"content":"hi"', 'JSON'], ['{"content":"hi",}', 'JSON'],
    ["{'content':'hi'}", 'JSON'], ['{"content":"hi"}x', 'JSON'],
    ['{"content":"\ud800', 'JSON'], ['{"content":"\x"}', 'JSON'],
    ["{\"content\":\"a\nb\"}", 'JSON'],
    ['{}', 'content'],

    # fields that OpenCode would take, but that are not the client's
    (map { [$with->(qq("$_":"msg_1")), $_] }
     qw(messageID noReply directory sessionID Content text prompt _meta)),
    [$with->('"":1'), 'field'],

    # twice
    ['{"content":"a","content":"b"}', 'content'],
    [$with->('"agent":"a","agent":"b"'), 'agent'],
    ['{"content":"a","cont\u0065nt":"b"}', 'content'],

    # content
    (map { [qq({"content":$_}), 'content'] }
     qw(null true 5 {} [] ""), '{"type":"text","text":"x"}'),
    (map { [$block->($_), 'content[0]'] } qw(null 5 "hi" [] {})),
    (map { [$block->(qq({"type":$_,"text":"x"})), 'content[0].type'] }
     qw("audio" "Text" "" "file" null 5 ["text"])),
    [$block->('{"text":"x"}'), 'content[0].type'],
    [$block->($hi, $hi, '{"type":"video"}'), 'content[2].type'],
    (map { [$block->(qq({"type":"text","text":$_})), 'content[0].text'] }
     qw(null 5 [] {})),
    [$block->('{"type":"text"}'), 'content[0].text'],

    # image
    [$block->("{$png}"), 'content[0].data'],
    (map { [$block->(qq({$png,"data":$_})), 'content[0].data'] }
     qw(null 5 "" "a*b" "a\"b" "\u0000"), '"a b"',
     '"data:image/png;base64,AA=="'),
    [$block->('{"type":"image","data":"AA=="}'), 'content[0].mimeType'],
    (map { [$block->(qq({"type":"image","data":"AA==","mimeType":$_})),
            'content[0].mimeType'] }
     qw(null 5 "" "png" "text/html" "image/" "image/a,b" "image/a;b"
        "image/a\"b"), '"image/' . 'x' x 200 . '"'),

    # links
    [$block->('{"type":"resource_link","name":"x"}'), 'content[0].uri'],
    (map { [$block->(qq({"type":"resource_link","uri":$_})),
            'content[0].uri'] } qw(null 5 "" {})),
    (map { my $name = $_;
           map { [$block->(qq({"type":"resource_link","uri":"file:///a",)
                           . qq("$name":$_})), "content[0].$name"] }
           qw(5 {} true) }
     qw(name mimeType)),

    # resources
    [$block->('{"type":"resource"}'), 'content[0].resource'],
    (map { [$block->(qq({"type":"resource","resource":$_})),
            'content[0].resource'] } qw(null 5 "x" [] {})),
    (map { [$block->(qq({"type":"resource","resource":{"uri":"x:",$_}})),
            'content[0].resource.'] }
     '"text":5', '"text":null', '"blob":5', '"blob":"*","mimeType":"a/b"'),
    [$block->('{"type":"resource","resource":{"uri":"x:","blob":"AA=="}}'),
     'mimeType'],

    # parts
    ['{"content":"hi","parts":[' . $hi . ']}', 'parts'],
    ['{"parts":[' . $hi . '],"content":"hi"}', 'parts'],
    (map { [qq({"parts":$_}), 'parts'] } qw(null 5 "hi" {} [] [5] [null])),
    (map { [qq({"parts":[$hi,{"type":$_}]}), 'parts[1].type'] }
     qw("image" "tool" "reasoning" "step-start" "" null 5)),
    [qq({"parts":[$hi,{}]}), 'parts[1].type'],
    (map { my $type = $_;
           map { [qq({"parts":[$hi,{"type":"$type","$_":"x"}]}),
                  "parts[1].$_"] }
           qw(id messageID sessionID path) }
     qw(text file agent subtask)),
    (map { [qq({"parts":[{"type":"file","mime":"a/b","url":$_}]}),
            'parts[0].url'] }
     qw(null 5 [] "" "http://h/a" "https://h/a" "ftp://h/a" "/w/a" "w/a"
        "\tfile:///w/a" "fi\nle:///w/a" "blob:file:///w/a"), '" file:///w/a"',
     '"data :,"'),
    [qq({"parts":[{"type":"file","url":"file:///etc/a","url":"data:,a",)
     . '"url":5}]}', 'parts[0].url'],
    (map { [qq({"parts":[{"type":"file","url":"data:,","source":$_}]}),
            'parts[0].source.type'] }
     qw(null "file" {} {"type":"resource"} {"type":"file","type":"x"})),
    (map { [qq({"parts":[{"type":"subtask","prompt":$_}]}),
            'parts[0].prompt'] }
     '"@/etc/passwd"', '"see @~/a"', '"a\n\u0040b"', '"(@"'),

    # files: what is no plain path, whatever the session's directory
    (map { ([$block->(qq({"type":"resource_link","uri":"$_"})),
             'content[0].uri'],
            [qq({"parts":[$hi,{"type":"file","mime":"a/b","url":"$_"}]}),
             'parts[1].url']) }
     map { s/^\//file:\/\/\/w\//r }
     qw(/../a /.. /%2e%2e/a /.%2E/a /./a //a /..%2fa /%2Fa /..%5ca
        /%252e%252e/a /%25%32%65/a /a%00 /a%0a /a%7F /a% /a%4 /a%zz
        /%c0%ae%c0%ae/a /a#b /a?b /a?start=x /a\\\\..\\\\b /.\t./a /a\u0000
        file: file:a file:// file:////w/a file://h/w/a file://w/a
        file://127.0.0.1/w/a file://%6cocalhost/w/a file://u@localhost/w/a
        file://localhost:1/w/a \u0046ile:///w/../a FILE:///w/../a)),

    # the rest
    (map { [$with->(qq("model":$_)), 'model'] }
     qw(null 5 "p/m" [] {} {"providerID":"p"} {"modelID":"m"}
        {"providerID":"","modelID":"m"} {"providerID":"p","modelID":5}
        {"providerID":"p","modelID":"m","x":1} ["providerID","modelID"])),
    (map { my $name = $_; map { [$with->(qq("$name":$_)), $name] }
           qw(null 5 true [] {} "") }
     qw(agent system variant client_request_id)),
    [$with->('"client_request_id":"' . 'r' x 129 . '"'), 'client_request_id'],
    (map { [$with->(qq("tools":$_)), 'tools'] }
     qw(null 5 "bash" [] ["bash"] {"a":1} {"a":null} {"a":"true"}
        {"a":{}} {"a":true,"b":[]})),
);

$t->control('reset', {});

for my $case (@refused) {
    my ($body, $field) = @$case;
    my $name = length $body > 70 ? substr($body, 0, 66) . ' ...' : $body;
    my $c = post($t->session(), $body);
    my $p = is_error_packet($c->response(), 400, "refused: $name");

    ok(index($p->{message} // '', $field) >= 0, "names $field")
        or diag($p->{message});
}

# a name that is cut in the middle of a character, or could break out

for my $name ('x' . 'é' x 60, '\ud83d\ude00' x 9, 'a\"}\n\ndata: x',
              '\u0000\u001f', '<b>%s%n')
{
    my $c = post($t->session(), $with->(qq("$name":1)));

    is_error_packet($c->response(), 400, "refused: $name");
    ok(eval { decode('UTF-8', my $copy = $c->body(), FB_CROAK); 1 },
       'in valid UTF-8');
}

is(join("\n", $t->upstream()), '', 'nothing of it reaches OpenCode');

$t->done();


sub post {
    my ($session, $body) = @_;

    return $t->request('POST', "/sessions/$session/send-message",
        headers => { 'Content-Type' => 'application/json' },
        body => encoded($body));
}


sub encoded {
    my ($text) = @_;

    utf8::encode($text) if utf8::is_utf8($text);

    return $text;
}
