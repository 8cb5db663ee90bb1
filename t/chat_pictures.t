#!/usr/bin/perl

# Pictures that people send are fetched from the platform and become a part of
# the prompt, one or several, also those of an album, which comes as several
# messages.  What they are is seen by their content.  A picture that is too large
# or cannot be had is named to the sender, and the text runs without it.  A
# worker that is killed meanwhile does not lose the message.
#
# Broken by: the type that the platform claims (fetch_done()), an entry that is
# taken out before the pictures are there, an album whose messages are prompted
# one by one (join_album()), a path of the platform that is used as it is
# (chat_locate()), a size that is not counted (fetch_body()), a failure that is
# not tried again, or for ever (fetch_failed()), a message that cannot be
# cancelled meanwhile (delivery_cancel()).

use FindBin;
use lib "$FindBin::Bin/lib";

use MIME::Base64 qw(encode_base64);

use AgentStream;
use AgentStream::Bot;

my %PICTURE = ('image/png' => "\x89PNG\r\n\x1a\n", 'image/gif' => 'GIF89a',
               'image/jpeg' => "\xff\xd8\xff\xe0",
               'image/webp' => "RIFF\x10\0\0\0WEBPVP8 ");

telegram();
slack();
whatsapp();

done_testing();


# the bytes of a picture, in base64

sub picture {
    my ($type, $size) = @_;

    return encode_base64($PICTURE{$type} . 'p' x ($size // 100), '');
}


# what OpenCode was prompted with: for each prompt its texts and the addresses
# of its files

sub prompts {
    my ($t) = @_;

    return map { my $body = ref $_->{body} ? $_->{body}
                            : JSON::PP->new->utf8->decode($_->{body});
                 [map { $_->{text} // $_->{url} } @{ $body->{parts} }] }
           grep { $_->{url} =~ /prompt_async/ } @{ $t->control('log') };
}


sub clean {
    my ($t, $chat, $platform) = @_;
    my $state = $chat->state();

    is($state->{limited}, 0, "$platform: no 429");
    is(scalar @{ $state->{violations} }, 0, "$platform: nothing is refused")
        or diag(explain($state->{violations}));
    unlike($t->log_text(), qr/test-token/, "$platform: no token in the log");
}


sub telegram {
    my ($t, $chat) = bot(workers => 2, allow => 'all', timeout => 120,
                         expected => 'exited on signal 9',
                         chat => 'agentstream_chat_picture_size 100k;
                                  agentstream_chat_progress off;');
    my $id = 7000;

    my $say = sub {
        my ($text, $file, %more) = @_;

        return $chat->say(platform => 'telegram', chat => $id, text => $text,
                          file => $file, %more);
    };

    my $answer = sub {
        my ($said, %args) = @_;

        return (answer_to($chat, 'telegram', $id, $said->{id}, seconds => 30,
                          %args) // {})->{text} // '';
    };

    my $files = sub { return scalar $chat->calls('telegram', $_[0] // 'file') };

    # each kind, by its content: Telegram says of every photo that it is JPEG

    for my $type (sort keys %PICTURE) {
        $id++;
        my $said = $say->('say:seen', { photo => JSON::PP::true(),
                                        base64 => picture($type) });
        is($answer->($said), 'seen', "$type: answered");
        is_deeply((prompts($t))[-1], ['say:seen', "data:$type;base64,"
                                      . picture($type)], "$type: prompted");
    }

    # without a word

    $id++;
    my $said = $say->(undef, { name => 'x.png', mime => 'image/png',
                               base64 => picture('image/png') });
    ok($answer->($said), 'a picture alone is answered');
    is_deeply((prompts($t))[-1], ['data:image/png;base64,'
                                  . picture('image/png')], 'and prompted');

    # an album, and a message of somebody else in between

    $id++;
    my %album = (message => { media_group_id => '77001' });
    my $photo = sub { return { photo => JSON::PP::true(),
                               base64 => picture('image/jpeg', $_[0]) } };

    $said = $say->('say:three', $photo->(21), %album);
    my $other = $say->('say:other');
    $say->(undef, $photo->($_), %album) for 22, 23;
    is($answer->($said), 'three', 'an album is answered');
    is($answer->($other), 'other', 'then the message in between');
    my @last = (prompts($t))[-2, -1];
    is_deeply($last[0], ['say:three', map { 'data:image/jpeg;base64,'
        . picture('image/jpeg', $_) } 21 .. 23], 'one prompt with all of it');
    is_deeply($last[1], ['say:other'], 'and the other message alone');

    # what cannot be read; the text runs

    $id++;
    my $before = $files->('getFile');
    $said = $say->('say:too large', { name => 'big.png', mime => 'image/png',
        base64 => picture('image/png', 100 * 1024) });
    like($answer->($said), qr/^Too large to be read: big\.png\.$/, 'too large');
    ok($chat->wait_message('telegram', $id, qr/^too large$/), 'and answered');
    is($files->('getFile'), $before, 'it is not even asked for');

    $id++;
    $said = $say->('say:strange', { name => 'x.png', mime => 'image/png',
                                    base64 => encode_base64('<html>' x 9, '') });
    like($answer->($said), qr/^Not a picture .*: x\.png\.$/, 'no picture');
    ok($chat->wait_message('telegram', $id, qr/^strange$/), 'and answered');

    $id++;
    $chat->config(rules => [{ method => '^getFile$', status => 200, times => 1,
        json => { ok => JSON::PP::true(), result => { file_id => 'x',
                  file_path => '../../getMe' } } }]);
    $before = $files->();
    $said = $say->(undef, $photo->(1));
    like($answer->($said), qr/^Could not be fetched .*: photo\.$/,
         'a path that leads elsewhere');
    is($files->(), $before, 'is not followed');

    # failures that pass, and some that do not

    $id++;
    $chat->config(rules => [
        { method => '^getFile$', retry => 1, times => 1 },
        { method => '^file$', cut => JSON::PP::true(), times => 1 }]);
    $said = $say->('say:third time', $photo->(500));
    is($answer->($said), 'third time', 'tried again');
    is(scalar @{ (prompts($t))[-1] }, 2, 'with its picture');

    $id++;
    $chat->config(rules => [{ method => '^file$', status => 404,
                              text => 'no' }]);
    $before = $files->();
    $said = $say->('say:without', $photo->(1));
    like($answer->($said), qr/^Could not be fetched/, 'it cannot be had');
    ok($chat->wait_message('telegram', $id, qr/^without$/), 'and answered');
    is($files->(), $before + 1, 'what was refused is not tried again');
    like($t->log_text(), qr/a picture could not be fetched, status: 404/,
         'and logged');

    # an album, cancelled while it is on its way

    $id++;
    $chat->config(rules => [{ method => '^file$', hang => 1500, times => 1 }]);
    $before = $files->();
    my $prompts = prompts($t);
    %album = (message => { media_group_id => '77003' });
    $say->('say:never', $photo->(1), %album);
    $say->(undef, $photo->(2), %album);
    ok(wait_for(sub { $files->() > $before }, 10), 'it is on its way');
    is($answer->($say->('/cancel')), 'Cancelled.', 'cancelled');
    is($answer->($say->('say:next')), 'next', 'the next message is answered');
    is(scalar(prompts($t)), $prompts + 1, 'what was cancelled is not prompted');

    # and while its session is looked for

    $id++;
    $t->control('config', { rules => [{ method => 'GET', url => '^/session/',
                                        delay => 1500, times => 1 }] });
    $prompts = prompts($t);
    %album = (message => { media_group_id => '77004' });
    $say->('say:never', $photo->(1), %album);
    $say->(undef, $photo->(2), %album);
    is($answer->($say->('/cancel')), 'Cancelled.', 'an album is cancelled');
    is($answer->($say->('say:next')), 'next', 'and the next message answered');
    is(scalar(prompts($t)), $prompts + 1, 'nothing else is prompted');

    # workers are killed while the picture is on its way; those of an album too

    $id++;
    $chat->config(rules => [{ method => '^file$', hang => 2000, times => 2 }]);
    %album = (message => { media_group_id => '77002' });
    $before = $files->();
    $prompts = prompts($t);
    $said = $say->('say:survived', $photo->(31), %album);
    $say->(undef, $photo->(32), %album);
    ok(wait_for(sub { $files->() > $before }, 10), 'it is on its way');
    kill 'KILL', $_ for $t->workers();
    is($answer->($said), 'survived', 'the message is not lost');
    is(scalar @{ (prompts($t))[-1] }, 3, 'nor are its pictures');
    sleep(1.5);
    is(scalar(prompts($t)), $prompts + 1, 'it is prompted once');

    # none are wanted where a question waits: the words are its answer

    $id++;
    $said = $say->('replay:question-single wait=1');
    ok(wait_for(sub { grep { @{ $_->{buttons} // [] } }
                      $chat->messages('telegram', $id, bot => 1) }, 15),
       'a question');
    $say->('own words', $photo->(1));
    ok($chat->wait_message('telegram', $id, qr/^Files are not read here: photo/),
       'a picture with an answer is named');
    ok(wait_for(sub { grep { $_->{url} =~ m{/question/\w+/reply}
                             && JSON::PP->new->encode($_->{body}) =~ /own words/ }
                      @{ $t->control('log') } }, 10), 'the words are passed');

    clean($t, $chat, 'telegram');
    $chat->stop();
    # nginx goes on counting the connections of dead workers

    $t->{active} = $t->active() - $t->control('stats')->{open};
    $t->finish();
}


sub slack {
    my ($t, $chat) = bot(platform => 'slack', allow => 'U0ANN', timeout => 60,
                         chat => 'agentstream_chat_picture_size 100k;
                                  agentstream_chat_progress off;');
    my @files = map { { name => "$_.png", mime => 'image/png',
                        base64 => picture('image/png', 10 * $_) } } 1, 2;

    my $say = sub { $chat->say(platform => 'slack', chat => 'D0ANN',
                               text => $_[0], file => $_[1]) };

    # several files at once, one of them is none that is read

    $say->('say:both', [@files, { name => 'a.pdf', mime => 'application/pdf',
                                  base64 => 'eA==' }]);
    ok($chat->wait_message('slack', 'D0ANN', qr/^both$/, 15), 'slack: answered');
    is_deeply((prompts($t))[-1], ['say:both', map { 'data:image/png;base64,'
        . $_->{base64} } @files], 'slack: both pictures');
    ok($chat->wait_message('slack', 'D0ANN', qr/not read here: a\.pdf/),
       'slack: the other file is named');

    # together they are too large; one is larger than Slack says

    my ($large) = map { { name => 'l.png', mime => 'image/png',
                          base64 => picture('image/png', 60_000) } } 1;

    $say->('say:one', [$large, { %$large, name => 'm.png' },
                       { %$large, name => 'n.png', size => 10 }]);
    ok($chat->wait_message('slack', 'D0ANN', qr/^one$/, 15),
       'slack: answered');
    ok($chat->wait_message('slack', 'D0ANN',
                           qr/^Too large to be read: m\.png, n\.png\.$/),
       'slack: what is too large is named');
    is(scalar @{ (prompts($t))[-1] }, 2, 'slack: one picture');

    # a token without files:read is answered with a page; another host is never
    # asked

    $chat->config(rules => [{ platform => 'slack', method => '^file$', times => 1,
                              rubbish => '<!DOCTYPE html>Sign in' }]);
    $say->('say:page', [$files[0]]);
    ok($chat->wait_message('slack', 'D0ANN', qr/^Not a picture .*: 1\.png\.$/, 15),
       'slack: a page instead of a picture');

    my $before = scalar $chat->calls('slack', 'file');

    $chat->say(platform => 'slack', chat => 'D0ANN', text => 'say:evil',
        event => { subtype => 'file_share', files => [{ id => 'F9',
            name => 'evil.png', mimetype => 'image/png', size => 10,
            url_private => 'https://files.slack.com.example.org/x.png' }] });
    ok($chat->wait_message('slack', 'D0ANN', qr/not read here: evil\.png/, 15),
       'slack: an address elsewhere');
    is(scalar $chat->calls('slack', 'file'), $before, 'slack: is not asked');
    ok($chat->wait_message('slack', 'D0ANN', qr/^evil$/, 15), 'slack: answered');

    clean($t, $chat, 'slack');
    $chat->stop();
    $t->finish();
}


sub whatsapp {
    my ($t, $chat) = bot(platform => 'whatsapp', allow => '15550001111',
                         timeout => 60);

    # larger than what nginx takes from clients by default

    my $photo = picture('image/jpeg', 900_000);

    $chat->say(platform => 'whatsapp', chat => '15550001111',
               text => 'say:got it', file => { photo => JSON::PP::true(),
                   mime => 'image/jpeg', base64 => $photo });
    ok($chat->wait_message('whatsapp', '15550001111', qr/^got it$/, 20),
       'whatsapp: answered');
    ok(eq_array((prompts($t))[-1], ['say:got it',
                                    "data:image/jpeg;base64,$photo"]),
       'whatsapp: the picture');

    clean($t, $chat, 'whatsapp');
    $chat->stop();
    $t->finish();
}
