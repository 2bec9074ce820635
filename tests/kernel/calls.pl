# SPDX-License-Identifier: Apache-2.0
# What calls.py is, in Perl. usage: calls.pl READY SECONDS
sub burn {
    my $x = 0; # burn
    for (my $i = 0; $i < 500000; $i++) { # burn
        $x = ($x * 31 + $i) % 1000003; # burn
    }
    return $x; # burn
}

sub by_key {
    return burn() + 1;
}

sub ordered {
    my @two = sort { by_key() } 2, 1;
}

sub Kept::FETCH {
    ordered();
    return 1;
}

sub Kept::TIESCALAR { return bless [], shift }

sub last_of {
    my $kept = shift;
    return $$kept + 1;
}

sub main {
    my $end = time + $ARGV[1];
    tie my $value, 'Kept';
    open my $ready, '>', $ARGV[0] or die;
    print $ready "ready";
    close $ready;
    last_of(\$value) while time < $end;
}

main();
