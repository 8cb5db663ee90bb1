package AgentStream::Alloc;

# A world whose nginx can be told to fail one allocation: what is armed counts
# the allocations of the worker, and fails the n-th.  It is the nginx of
# build/alloc (t/alloc/inject.c), sanitized, with the module in it.

use strict;
use warnings;

use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

my ($build, $nginx);

# before the harness looks at them

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
my @FIELDS = qw(armed fail burst count failed free nframes);
my $FRAMES = 48;
my $SIZE = 8 * (@FIELDS + $FRAMES);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my %place;


sub new {
    my ($class, %args) = @_;
    my $file = "$build/control.$$";

    CORE::open my $fh, '+>', $file or die "$file: $!\n";
    syswrite $fh, "\0" x $SIZE;
    local $ENV{AGENTSTREAM_ALLOC} = $file;

    my $self = $class->SUPER::new(%args, control => $fh,
        expected => qr/\[emerg\].* (malloc|posix_memalign)\(.*\) failed/);

    unlink $file;
    $self->{pids} = [$self->workers()];

    return $self;
}


# Does the same again and again, each time with another allocation that fails,
# until there are no more of them.  The code gets a session and what arms; it
# returns [client, kind] of those whose responses are judged.

sub scenario {
    my ($self, $name, $code) = @_;
    my @at = split ' ', $ENV{AGENTSTREAM_AT} // '';
    my ($n, $beyond, $slowest, $since) = (@at ? $at[0] - 1 : 0, 0, 0, time());
    my (%outcome, @problems);

    my $total = $self->once($code, 0, \@problems)->{count};

    ok(!@problems, "$name: nothing fails") or diag(@problems);

    # how many there are depends on what arrives together

    while ($beyond < 3 && $n < $total + 100 && !(@at && $n >= $at[-1])) {
        my $start = time();
        my $state = $self->once($code, ++$n, \my @found);
        my $took = time() - $start;

        if (!$state->{failed}) {
            $beyond++;
            next;
        }

        $beyond = 0;
        $slowest = $took if $took > $slowest;
        $outcome{$_}++ for @{ $state->{outcome} };

        push @found, 'the worker died'
            if "@{ $self->{pids} }" ne join ' ', $self->workers();

        my $where = sprintf "%d in %s, %s: %s (%.2f s)\n", $n, $name,
            $self->place($state), join(' + ', @{ $state->{outcome} }), $took;

        note($where) if $ENV{AGENTSTREAM_VERBOSE};
        push @problems, $where, map { "    $_\n" } @found if @found;

        last if @problems > 60 || grep { /died/ } @found;
    }

    ok(!@problems, "$name: $n allocations fail, one by one")
        or diag(@problems);
    note(sprintf '%s: %d allocations, %.0f s, the slowest %.2f s; %s', $name,
         $total, time() - $since, $slowest,
         join ', ', map { "$_: $outcome{$_}" } sort keys %outcome);
}


sub once {
    my ($self, $code, $n, $problems) = @_;
    my $s = $self->session();

    my @clients = $code->($s, sub {
        $self->arm($n, $ENV{AGENTSTREAM_BURST});
    });
    my $state = $self->disarm();

    $state->{outcome} = [map { $self->outcome($s, @$_, $problems) } @clients];

    push @$problems, "failed: @{ $state->{outcome} }"
        if $n == 0 && grep { !/^good/ } @{ $state->{outcome} };

    # whatever became of it, it ends, and with one terminal packet

    wait_for(sub { $self->request('GET', "/sessions/$s/turn")->body()
                   =~ /"running":false/ })
        or push @$problems, 'the turn does not end';

    my $e = $self->request('GET', "/sessions/$s/events");

    push @$problems, map { "kept: $_" } $self->stream_problems($e)
        if ($e->status() // 0) != 204 && ($e->status() // 0) < 400;

    # the session is free

    my $d = $self->turn($s, 'text:2:8:0');

    push @$problems, map { "next turn: $_" } $self->stream_problems($d),
        ($d->body() =~ /"type":"prompt_response"/) ? () : $d->body();

    $self->control('close', {});

    return $state;
}


# kind: turn, all its packets; rest, some of them; json; list and stream, of
# packets of a history

sub outcome {
    my ($self, $s, $c, $kind, $problems) = @_;
    my $status = $c->status();

    return 'closed' unless defined $status;

    if (!$c->ended()) {
        push @$problems, "$kind: not ended in time";
        return 'open';
    }

    return 'cut' if $c->ended() ne 'clean';

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


# a history is whole, but for subagents that could not be asked, or it says
# that it is not

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

# fail: which one, 0: count only; burst: and how many in a row

sub arm {
    my ($self, $fail, $burst) = @_;

    $self->put(pack 'Q7', 0, $fail, $burst || 1, 0, 0, 0, 0);
    $self->put(pack 'Q', 1);
}


# -> {count, failed, frames, …}

sub disarm {
    my ($self) = @_;
    my ($bytes, %state);

    $self->put(pack 'Q', 0);

    sysseek $self->{control}, 0, 0;
    sysread $self->{control}, $bytes, $SIZE;

    my @values = unpack 'Q*', $bytes;

    @state{@FIELDS} = splice @values, 0, @FIELDS;
    $state{frames} = [@values[0 .. $state{nframes} - 1]];

    return \%state;
}


sub put {
    my ($self, $bytes) = @_;

    sysseek $self->{control}, 0, 0;
    syswrite $self->{control}, $bytes;
}


# where it failed: who asked the allocators, and the module's next of kin

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
