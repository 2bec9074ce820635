#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# Runs through situations, each of which is a chain of calls of a known shape, and spends its time in the innermost function. Writes
# what a profiler must see of each (the truth, in the form that ../python/chains.py has) before it begins.
#
#	perl chains.pl TRUTH
#
# A situation is run once while its innermost function asks caller(): that is its chain. Functions s12_… and packages S12… belong to
# situation 12.
use strict;
use warnings;
no warnings 'recursion';
use utf8;
use Config;
use List::Util ();
use POSIX ();

my $ROUNDS = 60000;
our $observed; # an array while a situation is observed
our ($leaf_begin, $leaf_end, $thread_line, $folder, $children);

sub leaf {
    BEGIN { $leaf_begin = __LINE__ }
    if ($observed) {
        observe();
        return 1;
    }
    my $n = shift;
    for my $i (1 .. $ROUNDS) {
        $n = ($n * 31 + $i) % 1000003;
        $n++ if $n == 7;
    }
    return $n;
}
BEGIN { $leaf_end = __LINE__ }

# Of leaf() and all that called it, innermost first. Instead of a format's name, caller() gives the format, which cannot be copied.
sub observe {
    my @frames;
    for (my $i = 1; my ($file, $line) = (caller $i)[1, 2]; $i++) {
        push @frames, [$file, $line, ref \(caller $i)[3] eq 'FORMAT' ? 'main::S28' : (caller $i)[3]];
    }
    $observed = \@frames;
}

sub s01_recursion {
    my $depth = shift // 100;
    return $depth ? s01_recursion($depth - 1) : leaf(1);
}

package S02Base {
    sub new { return bless {seed => 2}, shift }
    sub method {
        my ($self, $x) = @_;
        return $self->inner($x + $self->{seed});
    }
    sub inner { return main::leaf($_[1]) }
}

package S02Derived {
    our @ISA = ('S02Base');
    sub method {
        my ($self, $x) = @_;
        return $self->SUPER::method($x) + 1;
    }
}

sub s02_methods { return S02Derived->new->method(1) }

sub s03_closures {
    my $k = 3;
    my $inner = sub { return leaf($_[0] + $k) };
    my $outer = sub {
        return $inner->(@_);
    };
    return $outer->(1);
}

sub s04_map {
    return map { leaf($_) } grep { $_ } 1, 2;
}

package S05Loader {
    our $AUTOLOAD;
    sub AUTOLOAD {
        return if $AUTOLOAD =~ /DESTROY/;
        return main::leaf(5);
    }
}

sub s05_autoload { return S05Loader->missing(5) }

sub s06_compare { leaf(6); return $a <=> $b }

sub s06_sort {
    my @sorted = sort s06_compare 2, 1;
    return \@sorted;
}

sub s07_sort_block {
    my @sorted = sort { leaf(7); $a <=> $b } 2, 1;
    return \@sorted;
}

package S08Tied {
    sub TIESCALAR { return bless [], shift }
    sub FETCH { return main::leaf(8) }
    sub STORE { return main::leaf(9) }
}

sub s08_fetch {
    tie my $t, 'S08Tied';
    return $t + 1;
}

sub s09_store {
    tie my $t, 'S08Tied';
    $t = 9;
    return;
}

package S10Number {
    use overload '+' => \&plus, '<=>' => sub { main::leaf(11); return 0 }, '""' => 'text';
    sub new { return bless [], shift }
    sub plus { return main::leaf(10) }
    sub text { main::leaf(12); return 'text' }
}

sub s10_overload { return S10Number->new + 1 }

sub s11_overload_in_sort {
    my @sorted = sort { $a <=> $b } S10Number->new, S10Number->new;
    return scalar @sorted;
}

sub s12_to_string {
    my $text = 'x' . S10Number->new;
    return $text;
}

package S13Object {
    sub DESTROY { main::leaf(13); return }
}

sub s13_destroy {
    my $o = bless [], 'S13Object';
    undef $o;
    return;
}

sub s14_handler { return leaf(14) }

sub s14_signal {
    local $SIG{ALRM} = \&s14_handler;
    kill ALRM => $$;
    return;
}

sub s15_eval {
    my $x = eval { leaf(15) };
    return $x;
}

sub s16_eval_string {
    return eval "#line 1 \"s16 text\"\n\nleaf(16)";
}

sub s17_die {
    local $SIG{__DIE__} = sub { leaf(17) };
    eval { die "s17\n" };
    return;
}

sub s18_warn {
    local $SIG{__WARN__} = sub { leaf(18) };
    warn "s18\n";
    return;
}

sub s19_require {
    delete $INC{"$folder/s19_required.pl"};
    return require "$folder/s19_required.pl";
}

sub s20_do {
    return do "$folder/s20_done.pl";
}

sub s21_regex {
    return 'aab' =~ /a+(?{ leaf(21) })b/;
}

sub s22_substitute {
    (my $text = 'bab') =~ s/a/leaf(22)/e;
    return $text;
}

sub s23_target { return leaf(23) }
sub s23_jumps { goto &s23_target }
sub s23_goto { return s23_jumps(23) }

sub s24_context { return wantarray ? leaf(24) : undef }

sub s24_wantarray {
    my ($x) = s24_context();
    return $x;
}

our @large = map { $_ * 7919 % 10007 } 1 .. 20000;

sub s25_native {
    return leaf(25) if $observed;
    return scalar unpack '%32C*', pack 'w*', @large;
}

sub s26_first {
    return List::Util::first { leaf(26) } 1, 2;
}

sub s27_reduce {
    return List::Util::reduce { leaf($a + $b) } 1, 2, 3;
}

our $s28_value;
format S28 =
@<<<<<
leaf(28)
.

sub s28_format {
    my $text = '';
    open my $out, '>', \$text or die;
    my $before = select $out;
    $~ = 'S28';
    write;
    select $before;
    return;
}

package S29Tied {
    sub TIESCALAR { return bless [], shift }
    sub FETCH {
        my $x = eval { 1 };
        return main::leaf(29);
    }
}

sub s29_after_eval {
    tie my $t, 'S29Tied';
    return $t + 1;
}

package S30Tied {
    sub TIESCALAR { return bless [], shift }
    sub FETCH {
        my $x = eval { main::leaf(30) };
        return $x;
    }
}

sub s30_eval_in_call {
    tie my $t, 'S30Tied';
    return $t + 1;
}

sub s31_body {
    leaf($_) for 1 .. ($observed ? 1 : 20);
    return;
}

sub s31_thread {
    BEGIN { $thread_line = __LINE__ + 1 }
    threads->create(\&s31_body)->join; # much of it is spent in perl_clone
    return;
}

sub s32_fork {
    my $pid = $observed ? 0 : fork // die;
    if (!$pid) {
        syswrite $children, "$$\n" if !$observed;
        leaf($_) for 1 .. ($observed ? 1 : 40);
        return if $observed;
        POSIX::_exit(0);
    }
    waitpid $pid, 0;
    return;
}

sub s33_nested {
    my $depth = shift // 8;
    my @sorted = sort { $depth ? s33_nested($depth - 1) : leaf(33); $a <=> $b } 2, 1;
    return \@sorted;
}

sub s34_glob {
    no warnings 'redefine';
    local *s34_named = sub { return leaf(34) };
    return s34_named();
}

sub s35_generated {
    my $made = eval "#line 100 \"s35 text\"\nsub { return leaf(35) }";
    return $made->();
}

sub s36_with (&) { return $_[0]->() }

sub s36_prototype {
    return s36_with { leaf(36) };
}

sub s37_größe { return leaf(37) }
sub s37_unicode { return s37_größe() }

sub s38_lexical {
    my sub s38_inner { return leaf(38) }
    return s38_inner();
}

package S39Tied {
    sub TIESCALAR { return bless [], shift }
    sub FETCH { return S10Number->new + 1 }
}

sub s39_nested_calls {
    tie my $t, 'S39Tied';
    my @sorted = sort { $t } 2, 1;
    return \@sorted;
}

sub s40_many {
    return List::Util::any { eval { leaf(40); 0 } } 1;
}

sub s41_deep_blocks {
    for my $i (1) {
        while (1) {
            if ($i) {
                { leaf(41) }
            }
            last;
        }
    }
    return;
}

if ($] >= 5.034) {
    eval <<'END' or die;
#line 1 "s42 text"
no warnings;
use feature 'try';
sub s42_try {
    try { leaf(42) } catch ($e) { }
    return;
}
1;
END
}

# --- the truth

# Native code between a function and its caller, by situation and the function's place from the end of the chain.
my %between = (
    s06_sort => {2 => 'sort'}, s07_sort_block => {1 => 'sort'}, s08_fetch => {2 => 'call_sv'}, s09_store => {2 => 'call_sv'},
    s10_overload => {2 => 'amagic_call'}, s11_overload_in_sort => {2 => 'amagic_call'}, s12_to_string => {2 => 'amagic_call'},
    s13_destroy => {3 => 'call_sv'}, s14_signal => {3 => 'call_sv'}, s17_die => {2 => 'call_sv'}, s18_warn => {2 => 'call_sv'},
    s21_regex => {1 => 'regexec|\+0x'}, s26_first => {2 => 'first|\+0x'}, s27_reduce => {2 => 'reduce|\+0x'},
    s29_after_eval => {2 => 'call_sv'}, s30_eval_in_call => {2 => '\+0x|docatch', 3 => 'call_sv'}, s31_thread => {3 => 'thread|\+0x'},
    s39_nested_calls => {2 => 'amagic_call', 3 => 'call_sv'}, s40_many => {2 => '\+0x|docatch', 3 => 'any|\+0x'},
);

sub situations {
    return sort grep { /^s\d\d_(?!compare|handler|target|jumps|context|body|named|with|größe|inner)/ && defined &{"main::$_"}
        && ($_ ne 's31_thread' || $Config{useithreads}) } keys %main::;
}

sub chain {
    my ($name, $frames) = @_;
    my ($file, @lines) = ($leaf_file::name, $leaf_begin .. $leaf_end);
    my @steps;
    for my $f (@$frames) {
        unshift @steps, {name => $f->[2], file => $file, lines => [@lines]};
        ($file, @lines) = @$f[0, 1];
    }
    unshift @steps, {name => '(main)', file => $file, lines => [@lines]} if $name ne 's31_thread';
    if ($name eq 's25_native') {
        pop @steps;
        $_++ for @{$steps[-1]{lines}};
    }
    $_->{leaf} = JSON::PP::false() for @steps;
    $steps[-1]{leaf} = JSON::PP::true();
    for my $i (0 .. $#steps) {
        my $s = $steps[$i];
        my $nested = $name eq 's33_nested' && ($s->{name} eq 'main::leaf' || ($s->{name} eq $steps[$i - 1]{name} && $i));
        $s->{between} = $nested ? 'sort' : $between{$name}{@steps - $i} // '';
        $s->{direct} = $s->{between} eq '' ? JSON::PP::true() : JSON::PP::false();
        $s->{prepared} = JSON::PP::true(); # the caller runs code of its own at that line, before and after
        $s->{first} = 0;
    }
    return \@steps;
}

sub all_functions {
    my @found;
    no strict 'refs';
    for my $package ('main', grep { s/::$// && /^S\d\d/ } keys %main::) {
        for my $name (keys %{"${package}::"}) {
            push @found, "${package}::$name" if defined &{"${package}::$name"};
        }
        push @found, "${package}::__ANON__";
    }
    return @found, '(main)', '(eval)', 's38_inner';
}

sub run {
    no strict 'refs';
    &{"main::$_[0]"}();
    return;
}

sub write_file {
    my ($path, $text) = @_;
    open my $out, '>:raw', "$path.part" or die "$path: $!";
    print {$out} $text;
    close $out or die "$path: $!";
    rename "$path.part", $path or die "$path: $!";
    return;
}

require threads if $Config{useithreads};
my $path = $ARGV[0];
$folder = $path =~ s{/[^/]*$}{}r;
$leaf_file::name = __FILE__;
write_file("$folder/s19_required.pl", "# situation 19\nleaf(19);\n1;\n");
write_file("$folder/s20_done.pl", "# situation 20\nleaf(20);\n");
my @all = situations();
require JSON::PP;
my %truth = (pid => $$, language => 'perl', loop => 'Perl_runops', unknown_in => '^perl_(clone|destruct)$', situations => {}, library => {});
my %names = map { $_ => 1 } all_functions();
my %files = (__FILE__, 1);
for my $name (@all) {
    $observed = [];
    if ($name eq 's31_thread') {
        my $frames = threads->create(sub { s31_body(); return $observed })->join;
        $observed = [grep { $_->[2] ne 'main::__ANON__' } @$frames];
    } else {
        run($name);
    }
    my $steps = chain($name, $observed);
    $names{$_->{name}} = $files{$_->{file}} = 1 for @$steps;
    $truth{situations}{$name} = {chain => $steps, thread => $name eq 's31_thread' ? JSON::PP::true() : JSON::PP::false()};
}
undef $observed;
for my $file (keys %files) {
    push @{$truth{own}}, map { [$file, $_, 0, 1000] } keys %names;
}
my @common = grep { !/thread|fork/ } @all;
my $last = __LINE__ + 7;
for (values %{$truth{situations}}) { # they are run from another line than they were observed from
    $_->{chain}[0]{lines} = [$_->{thread} ? $thread_line : $last];
}
open $children, '>', "$path.children" or die "$path.children: $!";
write_file($path, JSON::PP->new->utf8->encode(\%truth));
while (1) {
    run($_) for (@common) x 10, @all;
}
