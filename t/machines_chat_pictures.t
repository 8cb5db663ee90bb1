#!/usr/bin/perl

# Pictures in chats of several machines: one picture, and an album whose messages
# reach different machines.  The machine that fetches them is lost: another one
# fetches them again, and nothing is prompted twice.
#
# Broken by: an album whose messages are prompted by the machine that got them
# (join_album() of entries that another machine has stored), an entry that is
# taken out before its picture was prompted.

use FindBin;
use lib "$FindBin::Bin/lib";

use MIME::Base64 qw(encode_base64);

use AgentStream;
use AgentStream::Attach;
use AgentStream::Bot qw(:machines);
use AgentStream::Machines;

my $m = AgentStream::Machines->new(3,
    bot => { allow => 'all', chat => 'agentstream_chat_progress off;' });
my ($x, $y, $z) = $m->machines();
my $chat = $m->{chat};

single();
album();
lost();

is(scalar @{ $chat->state()->{violations} }, 0, 'nothing that is refused')
    or diag(explain($chat->state()->{violations}));

$m->done();


sub picture {
    my ($n) = @_;

    return encode_base64("\xff\xd8\xff\xe0" . 'p' x $n, '');
}


sub show_at {
    my ($t, $to, $text, $n, $group) = @_;

    return say_at($chat, $t, $to, $text,
        file => { photo => JSON::PP::true(), base64 => picture($n) },
        $group ? (message => { media_group_id => $group }) : ());
}


# what OpenCode was prompted with: texts, and sizes of pictures

sub prompted {
    return map { my $body = ref $_->{body} ? $_->{body}
                            : JSON::PP->new->utf8->decode($_->{body});
                 join ' ', map { $_->{text} // length($_->{url}) }
                           @{ $body->{parts} } }
           grep { $_->{url} =~ /prompt_async/ } @{ $x->control('log') };
}


sub size {
    my ($n) = @_;

    return length('data:image/jpeg;base64,' . picture($n));
}


sub single {
    my $said = show_at($x, 9101, 'say:one', 100);

    is(reply_of($chat, 9101, $said), 'one', 'a picture is answered');
    is((prompted())[-1], 'say:one ' . size(100), 'it was prompted');
}


sub album {
    my $to = 9102;

    # a turn runs, so that the test may take its time

    my $prompts = () = prompted();
    say_at($chat, $z, $to, 'text:20:24:100');
    ok(wait_for(sub { prompted() > $prompts }, 10), 'a turn runs');
    my $said = show_at($x, $to, 'say:three', 210, '81001');
    my $other = say_at($chat, $y, $to, 'say:other');
    show_at($y, $to, undef, 220, '81001');
    show_at($z, $to, undef, 230, '81001');

    is(reply_of($chat, $to, $said), 'three', 'an album is answered');
    is(reply_of($chat, $to, $other), 'other', 'then what came in between');
    is((prompted())[-2], join(' ', 'say:three', map { size($_) } 210, 220, 230),
       'the album was one prompt');
    is((prompted())[-1], 'say:other', 'and the other one another');
    is(scalar loud($chat, $to), 3, 'each once');
}


sub lost {
    my $to = 9103;

    # nobody is taken for dead before a lease has passed
    sleep(4);

    my $files = () = $chat->calls('telegram', 'file');
    my $prompts = () = prompted();

    $chat->config(rules => [{ method => '^file$', hang => 30000, times => 1 }]);
    my $said = show_at($x, $to, 'say:survived', 310, '81002');
    show_at($y, $to, undef, 320, '81002');
    ok(wait_for(sub { $chat->calls('telegram', 'file') > $files }, 10),
       'lost: a picture is on its way');
    $m->lose($x);
    is(reply_of($chat, $to, $said, 20), 'survived', 'lost: answered elsewhere');
    my @all = prompted();
    is(join(', ', @all[$prompts .. $#all]),
       join(' ', 'say:survived', size(310), size(320)),
       'lost: one prompt, with all of it');
    is(scalar loud($chat, $to), 1, 'lost: one answer');
}
