package AgentStream::Response;

# One response, fed with bytes as they arrive: head, body (chunked, with a
# length, or to the end of the connection), and the server-sent events in it.
#
# A packet is {id, event, data, raw, time}; `ended` is "clean" or "cut".

use strict;
use warnings;


sub new {
    my ($class, %args) = @_;

    return bless { dechunk => $args{dechunk}, headers => [], body => '',
        packets => [], comments => [], sse => '' }, $class;
}


sub header {
    my ($self, $name) = @_;

    my @found = map { $_->[1] }
                grep { lc $_->[0] eq lc $name } @{ $self->{headers} };

    return wantarray ? @found : $found[0];
}


# consumes what it can from the buffer; false if it needs more

sub take {
    my ($self, $buffer, $now) = @_;

    if (!$self->{status}) {
        return $self->head($buffer, $now);
    }

    if ($self->{chunked}) {
        return $self->chunk($buffer, $now);
    }

    my $n = $self->{left} // length $$buffer;
    $n = length $$buffer if $n > length $$buffer;

    $self->add(substr($$buffer, 0, $n, ''), $now);
    $self->{left} -= $n if defined $self->{left};
    $self->{ended} = 'clean' if defined $self->{left} && $self->{left} == 0;

    return 1;
}


sub head {
    my ($self, $buffer, $now) = @_;

    $$buffer =~ s/^(.*?\r\n)\r\n//s or return 0;

    my ($first, @lines) = split /\r\n/, $1;

    ($self->{protocol}, $self->{status}) =
        $first =~ m{^HTTP/([\d.]+) (\d{3})} or die "not HTTP: $first\n";

    $self->{headers} = [map { [split /:\s*/, $_, 2] } @lines];
    $self->{head_time} = $now;

    my $length = $self->header('Content-Length');

    if ($self->{status} == 204 || $self->{status} == 304
        || defined $length && $length == 0)
    {
        $self->{ended} = 'clean';

    } elsif ($self->{dechunk}
             && ($self->header('Transfer-Encoding') // '') eq 'chunked')
    {
        $self->{chunked} = 1;

    } else {
        $self->{left} = $length;
    }

    return 1;
}


sub chunk {
    my ($self, $buffer, $now) = @_;

    $$buffer =~ /^([0-9a-fA-F]+)[^\r\n]*\r\n/ or return 0;

    my ($head, $size) = ($+[0], hex $1);

    return 0 if length $$buffer < $head + $size + 2;

    substr($$buffer, 0, $head, '');
    $self->add(substr($$buffer, 0, $size, ''), $now) if $size;
    substr($$buffer, 0, 2, '');
    $self->{ended} = 'clean' if $size == 0;

    return 1;
}


sub eof {
    my ($self, $clean) = @_;

    $self->{ended} = $clean && !$self->{chunked} && !$self->{left}
                     ? 'clean' : 'cut';
}


sub add {
    my ($self, $bytes, $now) = @_;

    $self->{body} .= $bytes;
    $self->{sse} .= $bytes;

    while ($self->{sse} =~ s/^(.*?\n)\n//s) {
        $self->frame($1, $now);
    }
}


sub frame {
    my ($self, $raw, $now) = @_;
    my %packet = (raw => $raw, time => $now);

    if ($raw =~ /^:/) {
        push @{ $self->{comments} }, { text => $raw, time => $now };
        return;
    }

    for my $line (split /\n/, $raw) {
        my ($field, $value) = $line =~ /^(\w+): (.*)$/;

        $field //= 'garbage';
        $packet{$field} = defined $packet{$field}
                          ? "$packet{$field}\n" . ($value // $line)
                          : $value // $line;
    }

    push @{ $self->{packets} }, \%packet if defined $packet{data};
}


1;
