package AgentStream::Alloc;

# A test environment whose nginx can be told to let one allocation fail: once
# armed, it counts the worker's allocations and lets the n-th fail.  It is the
# nginx of build/alloc (t/alloc/inject.c), with sanitizers and the module in
# it.

use strict;
use warnings;

use IO::Select;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);

my ($build, $nginx);

# must be set before the harness reads them

BEGIN {
    $ENV{AGENTSTREAM_ASAN} //= 'log';

    require AgentStream::Nginx;

    $build = AgentStream::Nginx::build() . '/alloc';
    $nginx = "$build/nginx/objs/nginx";

    $ENV{AGENTSTREAM_NGINX} = "$build/nginx-alloc";
    $ENV{AGENTSTREAM_MODULE} = '';
    $ENV{AGENTSTREAM_ASAN} = "$build/log";
}

use AgentStream;

our @ISA = qw(AgentStream);

# struct inject_t of t/alloc/inject.c
my @FIELDS = qw(armed fail burst count failed nframes mark nblocks end);
my $FRAMES = 48;
my $WHERE = 12;
my $TABLE = 8 * (@FIELDS + $FRAMES);
my $BLOCK = 8 * (3 + $WHERE);
my $SIZE = $TABLE + 4096 * $BLOCK;

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my %place;


# ready => sub { … }: waits until everything works that belongs to it; lasting:
# matches what may stay in the zone; every: only each so many-th allocation fails

sub new {
    my ($class, %args) = @_;
    my $file = "$build/control.$$";

    CORE::open my $fh, '+>', $file or die "$file: $!\n";
    syswrite $fh, "\0" x $SIZE;
    local $ENV{AGENTSTREAM_ALLOC} = $file;

    my $self = $class->SUPER::new(%args, control => $fh, marks => ['before'],
        expected => qr/\[emerg\].* (malloc|posix_memalign)\(.*\) failed/);

    unlink $file;
    $self->{pids} = [$self->workers()];
    $self->ready();

    # the connection that tested whether nginx listens may still be open

    for (1 .. 10) {
        my $fds = $self->descriptors();

        $self->{fds} = $fds if $fds < ($self->{fds} // $fds + 1);
        sleep(0.02);
    }

    return $self;
}


sub ready {
    my ($self) = @_;

    return !$self->{ready} || wait_for(sub { $self->{ready}->($self) }, 20);
}


# Runs several copies of the test at once, which divide the allocations among
# them, because most of the time is spent waiting for the module's timers.

sub spread {
    my ($class, $parts, @names) = @_;
    my (%part, %results);
    my $select = IO::Select->new();

    $SIG{ALRM} = sub { die "the whole test took too long\n" };
    alarm(scaled(240 * @names));

    for my $n (1 .. $parts) {
        pipe(my $reader, my $writer) or die "pipe: $!\n";

        $part{fileno $reader} = { n => $n, text => '', fh => $reader,
            process => AgentStream::Process->start(out => $writer,
                command => [$^X, $0], env => { PERL5LIB => join(':', @INC),
                    AGENTSTREAM_PART => "$n $parts",
                    AGENTSTREAM_SCENARIOS => "@names" }) };
        $select->add($reader);
    }

    while (my @ready = $select->can_read()) {
        for my $fh (@ready) {
            my $part = $part{fileno $fh};
            my $n = sysread $fh, $part->{text}, 65536, length $part->{text};

            while ($part->{text} =~ s/^(.*)\n//) {
                my $line = $1;

                if ($line =~ /^# result (.*)/) {
                    my $result = $json->decode($1);
                    my $all = $results{ $result->{name} } //= [];

                    push @$all, $result;
                    report(@{ delete $results{ $result->{name} } })
                        if @$all == $parts;

                } elsif ($line =~ /^#(.*)/) {
                    note("$part->{n}:$1");

                } elsif ($line !~ /^(ok |1\.\.)/) {
                    diag("$part->{n}: $line");
                }
            }

            next if $n;

            $select->remove($fh);
            wait_for(sub { $part->{process}->exited() });
            is($part->{process}{status}, 0, "part $part->{n} of $parts");
        }
    }

    # the results of a copy that did not get so far

    report(@$_) for values %results;
    done_testing();
}


# Repeats the same scenario, each time with another allocation that fails,
# until all of them have failed once.  The code gets a session and a function
# that arms; it returns [client, kind] of those whose responses are checked.

sub scenario {
    my ($self, $name, $code) = @_;
    my @at = split ' ', $ENV{AGENTSTREAM_AT} // '';
    my ($n, $step) = split ' ', $ENV{AGENTSTREAM_PART} // '1 1';
    my $every = $ENV{AGENTSTREAM_EVERY} // $self->{every} // 1;
    my ($beyond, $slowest, $failed, $since) = (0, 0, 0, time());
    my (%outcome, @problems);

    $self->mark("$name with nothing failing");
    my $total = $self->once($name, $code, 0, \my @found)->{count};
    push @problems, "$name with nothing failing\n", map { "    $_\n" } @found
        if @found;

    # the number of allocations depends on what arrives together

    for ($n = $at[0] // $n * $every; $beyond < 3 && $n < $total + 100;
         $n += $step * $every)
    {
        last if @at && $n > $at[-1];

        my $start = time();

        $self->mark("$n in $name");
        my $state = $self->once($name, $code, $n, \my @found);
        my $took = time() - $start;

        if (!$state->{failed}) {
            $beyond++;
            next;
        }

        $beyond = 0;
        $failed++;
        $slowest = $took if $took > $slowest;
        $outcome{$_}++ for @{ $state->{outcome} };

        if ("@{ $self->{pids} }" ne join ' ', $self->workers()) {
            push @found, 'the worker died';
            $self->{pids} = [$self->workers()];
            $self->{died} = 1;
        }

        my $where = sprintf "%d in %s, %s: %s (%.2f s)\n", $n, $name,
            $self->place($state), join(' + ', @{ $state->{outcome} }), $took;

        note($where) if $ENV{AGENTSTREAM_VERBOSE};
        push @problems, $where, map { "    $_\n" } @found if @found;

        last if @problems > 60 || grep { /died/ } @found;
    }

    my %result = (name => $name, total => $total, failed => $failed,
        took => time() - $since, slowest => $slowest, outcome => \%outcome,
        problems => \@problems);

    return report(\%result) unless $ENV{AGENTSTREAM_PART};

    note('result ' . $json->encode(\%result));
    Test::More->builder->is_passing(0) if @problems;
}


# reports one scenario, for all copies of the test

sub report {
    my @results = @_;
    my ($name, $failed, %outcome) = ($results[0]{name}, 0);
    my @problems = map { @{ $_->{problems} } } @results;

    for my $result (@results) {
        $failed += $result->{failed};
        $outcome{$_} += $result->{outcome}{$_} for keys %{ $result->{outcome} };
    }

    my ($took, $slowest) = map {
        my $field = $_;
        (sort { $b <=> $a } map { $_->{$field} } @results)[0];
    } qw(took slowest);

    ok($failed && !@problems, "$name: $failed allocations fail, one by one")
        or diag(@problems);
    note(sprintf '%s: %d allocations, %.0f s, the slowest %.2f s; %s', $name,
         $results[0]{total}, $took, $slowest,
         join ', ', map { "$_: $outcome{$_}" } sort keys %outcome);
}


sub once {
    my ($self, $name, $code, $n, $problems) = @_;
    my $s = $name =~ /^(?:ai-sdk|ag-ui)/ ? '@alloc-' . ++$self->{names}
            : $name =~ /^chat/ ? '@telegram:' . (5000 + ++$self->{names})
            : $self->session();

    my @clients = $code->($s, sub {
        $self->arm($n, $ENV{AGENTSTREAM_BURST});
    });
    my $state = $self->disarm();

    $state->{outcome} = [map { $self->outcome($problems, $s, @$_) } @clients];

    push @$problems, "failed: @{ $state->{outcome} }"
        if $n == 0 && grep { !/^good/ } @{ $state->{outcome} };

    $self->ready() or push @$problems, 'not ready again';

    # the turn must end in any case, with one terminal packet

    wait_for(sub { $self->request('GET', "/sessions/$s/turn")->body()
                   =~ /"running":false/ })
        or push @$problems, 'the turn does not end';

    my $e = $self->request('GET', "/sessions/$s/events");

    push @$problems, map { "kept: $_" } $self->stream_problems($e)
        if ($e->status() // 0) != 204 && ($e->status() // 0) < 400;

    # the session must be free again

    my $d = $self->turn($s, 'text:2:8:0');

    push @$problems, map { "next turn: $_" } $self->stream_problems($d),
        ($d->body() =~ /"type":"prompt_response"/) ? () : $d->body();

    $self->control('close', {});

    return $state;
}


# kind: turn, all its packets; rest, some of its packets; follow, a stream that
# stays open, and how many turns it must have seen; json; list and stream, for
# the packets of a history; ai-sdk and ag-ui, for a response in that protocol;
# chat, for the text of an answer

sub outcome {
    my ($self, $problems, $s, $c, $kind, $turns) = @_;

    return $self->chat_outcome($problems, $c) if $kind eq 'chat';

    my $status = $c->status();

    return 'closed' unless defined $status;

    return 'good' if $kind eq 'follow' && ($turns // 1)
        <= grep { /^(prompt_response|error)$/ } types($c->packets());

    if (!$c->ended()) {
        push @$problems, "$kind: not ended in time";
        return 'open';
    }

    return 'cut' if $c->ended() ne 'clean';

    return $self->page_outcome($problems, $c, $kind)
        if $kind eq 'ai-sdk' || $kind eq 'ag-ui';

    if ($status >= 400) {
        my $type = $c->header('Content-Type') // '';

        push @$problems, "$kind: $status: " . $c->body()
            if $type ne 'text/html' && $c->body() !~ /"type":"error"/;
        return $kind eq 'json' && $status < 500 ? "good $status" : $status;
    }

    if ($kind eq 'json' || $kind eq 'list') {
        my $value = eval { $json->decode($c->body()) };

        push @$problems, "$kind: not JSON: " . $c->body()
            unless defined $value;

        return 'good' if $kind eq 'json';

        return $self->told($problems, map { $_->{type} } @{ $value // [] });
    }

    return $self->told($problems, types($c->packets())) if $kind eq 'stream';

    push @$problems, map { "$kind: $_" } $self->stream_problems($c, $kind, $s);

    my @packets = $c->packets();
    my $last = @packets ? packet_json($packets[-1]) : { type => 'nothing' };

    return $last->{type} eq 'error' ? "error $last->{code}" : 'good';
}


# a response in the protocol of a frontend: an error in its form, or a stream
# that ends once, with nothing behind the end

sub page_outcome {
    my ($self, $problems, $c, $kind) = @_;
    my $status = $c->status();
    my $type = $c->header('Content-Type') // '';
    my $body = $c->body();
    my $form = $kind eq 'ai-sdk' ? qr/^[^{<]+$/ : qr/"type":"RUN_ERROR"/;

    if ($status >= 400) {
        push @$problems, "$kind: $status: $body"
            if $type ne 'text/html' && $body !~ $form;
        return $status < 500 ? "good $status" : $status;
    }

    my $end = $kind eq 'ai-sdk' ? qr/^data: \{"type":"finish",/m
                                : qr/^data: \{"type":"RUN_(FINISHED|ERROR)"/m;
    my $last = $kind eq 'ai-sdk' ? qr/\n\ndata: \[DONE\]\n\n\z/
               : qr/\n\ndata: \{"type":"RUN_(FINISHED|ERROR)"[^\n]+\n\n\z/;
    my $ends = () = $body =~ /$end/g;

    push @$problems, "$kind: ends badly: " . substr $body, -500
        if $body !~ $last || $ends != 1;

    return $body =~ /^data: \{"type":"(error|RUN_ERROR)"/m ? 'error' : 'good';
}


# somebody in a chat always hears something

sub chat_outcome {
    my ($self, $problems, $answer) = @_;

    push @$problems, 'no answer in the chat' unless defined $answer;

    return !defined $answer ? 'silence'
           : $answer =~ /^(The agent c\w+ not|The answer was)/ ? 'refused'
           : 'good';
}


# a history must be complete, except for subagents whose messages could not be
# read, or it must report that it is not

sub told {
    my ($self, $problems, @types) = @_;

    return 'error' if @types && $types[-1] eq 'error';

    @types = grep { /^(turn_started|user|subagent|prompt_resp)/ } @types;

    $self->{whole} //= "@types";
    push @$problems, "history: @types" if "@types" ne $self->{whole};

    return 'good';
}


# with the session, the text is compared with what is stored

sub stream_problems {
    my ($self, $c, $kind, $s) = @_;
    my @packets = $c->packets();
    my @types = types(@packets);
    my ($reset) = grep { $types[$_] eq 'stream_reset' } 0 .. $#types;
    my @problems;

    push @problems, 'not ended: ' . ($c->ended() // 'at all')
        if ($c->ended() // '') ne 'clean';

    if (!defined $reset && ($kind // '') ne 'rest') {
        push @problems, AgentStream::Check::turn_problems(@packets);

    } else {
        my @terminal = grep { $types[$_] =~ /^(prompt_response|error)$/ }
                       0 .. $#types;

        push @problems, "terminal packets at (@terminal) of $#types"
            unless @terminal == 1 && $terminal[0] == $#types;
        push @problems, 'rebuilt without a beginning'
            if defined $reset && $#types > $reset + 1
               && $types[$reset + 1] ne 'turn_started';
    }

    if (defined $s && !defined $reset && $kind eq 'turn'
        && @types && $types[-1] eq 'prompt_response')
    {
        # this turn's messages end where the next turn begins

        my ($turn, @messages, $mine) = turn_id($c);

        for my $message (@{ $self->messages($s) }) {
            my $info = $message->{info};

            $mine = $info->{id} eq $turn if $info->{role} eq 'user';
            push @messages, $message if $mine;
        }

        push @problems, 'text not as stored'
            if joined_text($c) ne stored_text(\@messages, $turn);
    }

    return @problems;
}


# ---- the control file

# fail: which allocation, 0: only count; burst: how many in a row

sub arm {
    my ($self, $fail, $burst) = @_;

    $self->put(0, 0, $fail, $burst || 1, 0, 0, 0);
    $self->put(0, 1);
}


# -> {count, failed, frames, …}

sub disarm {
    my ($self) = @_;
    my %state;

    $self->put(0, 0);

    my @values = $self->get(0, $TABLE);

    @state{@FIELDS} = splice @values, 0, @FIELDS;
    $state{frames} = [@values[0 .. $state{nframes} - 1]];

    return \%state;
}


sub put {
    my ($self, $offset, @values) = @_;

    sysseek $self->{control}, $offset, 0;
    syswrite $self->{control}, pack 'Q*', @values;
}


sub get {
    my ($self, $offset, $size) = @_;

    sysseek $self->{control}, $offset, 0;
    sysread $self->{control}, (my $bytes), $size;

    return unpack 'Q*', $bytes;
}


# sets a label for the blocks that the module allocates in the zone from now on

sub mark {
    my ($self, $what) = @_;

    push @{ $self->{marks} }, $what;
    $self->put(8 * 6, $#{ $self->{marks} });
}


# -> the blocks with another label: the label, and the function that allocated
# them

sub blocks {
    my ($self) = @_;
    my ($mark, $count, $end) = $self->get(8 * 6, 24);
    my (@blocks, $n);

    for my $i (0 .. $end - 1) {
        my ($p, $of, $nframes, @frames) =
            $self->get($TABLE + $i * $BLOCK, $BLOCK);

        next unless $p;

        $n++;
        push @blocks, "$self->{marks}[$of], " . $self->place(
            { frames => [@frames[0 .. $nframes - 1]] }) if $of != $mark;
    }

    push @blocks, "$count blocks, $n of them known" if $count != ($n // 0);

    return @blocks;
}


sub descriptors {
    my ($self) = @_;

    return scalar(() = glob "/proc/$self->{pids}[0]/fd/*");
}


# At the end everything must be as before.  The end of a turn makes the zone
# forget turns that were kept long enough, so only the last turn may be left.

sub finish {
    my ($self) = @_;
    my (@blocks, $fds);

    if (!$self->{died}) {
        $self->mark('the last turn');
        sleep(2);

        ok(wait_for(sub {
            $self->turn($self->session(), 'text:1:8:0');
            @blocks = grep { !$self->{lasting} || !/$self->{lasting}/ }
                      $self->blocks();
            return !@blocks;
        }, 10), 'the zone is as before')
            or diag(map { "$_\n" } @blocks);

        $self->control('close', {});

        ok(wait_for(sub {
            ($fds = $self->descriptors()) <= $self->{fds}
        }, 10), 'no leaked descriptor')
            or diag("$fds, $self->{fds} before");
    }

    $self->SUPER::finish();
}


# after a worker was killed, nginx's own count of connections is wrong

sub replaced {
    my ($self, $pid) = @_;

    $self->{pids} = [$pid];
    $self->{active} = $self->active();
}


# where the allocation failed: the function that called the allocator, and the
# nearest function of the module

sub place {
    my ($self, $state) = @_;
    my @frames = map { sprintf '%x', $_ - 1 } @{ $state->{frames} };
    my $key = "@frames";

    return $place{$key} if $place{$key};

    CORE::open(my $pipe, '-|', 'addr2line', '-sfe', $nginx, @frames)
        or return 'unknown';
    chomp(my @lines = <$pipe>);

    my @calls;

    while (@lines) {
        my ($function, $where) = splice @lines, 0, 2;

        $where =~ s/ \(discriminator.*//;
        push @calls, "$function $where";
    }

    shift @calls while @calls && $calls[0] =~
        /^(\?\?|inject_|__wrap_|ngx_(p?n?c?alloc|p?memalign|palloc
          |create_pool|array_|list_|create_temp_buf|alloc_chain|pstrdup
          |pool_cleanup_add|http_cleanup_add))/x;

    my @own = grep { /agentstream/ } @calls[1 .. $#calls];

    return $place{$key} = join ' < ', grep { defined } $calls[0], @own[0, 1];
}


1;
