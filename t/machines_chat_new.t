#!/usr/bin/perl

# Commands of a chat that reach another machine than the one that serves it.
# "/new" while a turn runs elsewhere, and when nobody serves the chat: what is
# said after it, to any machine, is in the new conversation, and what was said
# before it in the old one.  "/cancel" and a button reach the turn of another
# machine; a button that was pressed before, on another machine, does nothing.
#
# Broken by: a command that is done by the machine that got it (store_chat_post()
# without the owner), a "/new" that overtakes what waits (delivery_wait()), the
# number of the session that a machine keeps for itself (delivery_renewed()
# without delivery_save()).

use FindBin;
use lib "$FindBin::Bin/lib";

use AgentStream;
use AgentStream::Attach;
use AgentStream::Bot qw(:machines);
use AgentStream::Machines;

my $m = AgentStream::Machines->new(3,
    bot => { allow => 'all', chat => 'agentstream_chat_edit_interval 300ms;' });
my ($x, $y, $z) = $m->machines();
my $chat = $m->{chat};

renewed();
cancelled();
pressed();

$m->done();


# the session that was prompted with this text

sub session_of {
    my ($text) = @_;
    my @log = grep { $_->{url} =~ /prompt_async/ && $_->{body} =~ /\Q$text\E"/ }
              @{ $x->control('log') };

    is(scalar @log, 1, "$text: one prompt");

    return ($log[0]{url} =~ m{/session/(\w+)/})[0];
}


sub renewed {
    my $to = 9001;

    # the owner is x; everything else comes to others

    my $first = say_at($chat, $x, $to, 'text:15:24:100');
    turn_runs($chat, $to);
    my $before = say_at($chat, $y, $to, 'say:before it');
    my $new = say_at($chat, $z, $to, '/new');
    my $after = say_at($chat, $y, $to, 'say:after it');

    like(reply_of($chat, $to, $first), qr/#14 /, 'new: the turn goes on');
    is(reply_of($chat, $to, $before), 'before it', 'new: what waits is next');
    like(reply_of($chat, $to, $new), qr/new conversation/i, 'new: then new');
    is(reply_of($chat, $to, $after), 'after it', 'new: then what came after');

    my $old = session_of('text:15:24:100');
    my $next = session_of('say:after it');
    is(session_of('say:before it'), $old, 'new: the old conversation');
    isnt($next, $old, 'new: a new conversation');

    # nobody serves it now

    ok(wait_for(sub { $m->redis('KEYS', 'as1:o:*') eq "\n" }, 10),
       'new: nobody serves the chat');
    is(reply_of($chat, $to, say_at($chat, $z, $to, 'say:the third')),
       'the third', 'new: another machine');
    is(session_of('say:the third'), $next, 'new: has the same conversation');

    my $again = say_at($chat, $y, $to, '/new');
    my $last = say_at($chat, $x, $to, 'say:the fourth');
    like(reply_of($chat, $to, $again), qr/new conversation/i, 'new: once more');
    is(reply_of($chat, $to, $last), 'the fourth', 'new: and the next message');
    my $third = session_of('say:the fourth');
    ok($third ne $next && $third ne $old, 'new: a third conversation');
    is(reply_of($chat, $to, say_at($chat, $z, $to, 'say:the fifth')),
       'the fifth', 'new: elsewhere');
    is(session_of('say:the fifth'), $third, 'new: it is known there, too');
    is(scalar loud($chat, $to), 8, 'new: everything once');
}


sub cancelled {
    my $to = 9002;
    my $said = say_at($chat, $x, $to, 'text:300:24:100');

    turn_runs($chat, $to);
    my $next = say_at($chat, $z, $to, 'say:the next');
    my $cancel = say_at($chat, $y, $to, '/cancel');
    like(reply_of($chat, $to, $cancel), qr/^Cancelled/, 'cancelled');
    is(reply_of($chat, $to, $next), 'the next', 'cancelled: what waits is next');
    ok(wait_for(sub { $m->redis('KEYS', 'as1:o:*') eq "\n" }, 10),
       'cancelled: nobody serves the chat');
    $cancel = say_at($chat, $z, $to, '/cancel');
    like(reply_of($chat, $to, $cancel), qr/nothing to cancel/,
         'cancelled: only once');
}


sub pressed {
    my $to = 9003;
    my $said = say_at($chat, $x, $to, 'replay:question-single wait=1');
    my $asked = wait_for(sub { my ($a) = grep { @{ $_->{buttons} // [] } }
                                   $chat->messages('telegram', $to, bot => 1);
                               $a }, 10);

    ok($asked, 'pressed: asked') or return;

    my %press = (platform => 'telegram', chat => $to, message => $asked->{id},
                 token => $asked->{buttons}[0]{token});

    for my $t ($y, $z) {
        hook_at($chat, $t);
        is($chat->press(%press)->{status}, 200, 'pressed: taken');
    }

    ok(answer_to($chat, 'telegram', $to, $said->{id}, not => $asked->{id}),
       'pressed: answered');
    hook_at($chat, $z);
    $chat->press(%press);
    is(reply_of($chat, $to, say_at($chat, $y, $to, 'say:and then')), 'and then',
       'pressed: the next message');
    is(scalar(grep { $_->{url} =~ m{/question/[^/]+/reply} }
              @{ $x->control('log') }), 1, 'pressed: OpenCode is told once');
    is(scalar loud($chat, $to), 3, 'pressed: question, answer, the next one');
}
