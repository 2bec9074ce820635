# SPDX-License-Identifier: Apache-2.0
#
# A Perl program whose functions live a tenth of a millisecond. It runs on Perl 5.32 to 5.42.
#
#	perl churn.pl TRUTH KIND
#
# Turn N evaluates a text of its own, runs it, and frees it at once, so that the next turn's functions and names take the memory of this
# one's. By KIND:
#
#	function    f_N, which calls g_N, in the file "<churn N>", at line N%1000+1
#	same        the same, always in the same file at the same line
#	package     f, which calls g, in package K_N, in the same file at the same line
#	anonymous   two functions without names in the file "<churn N>"
#
# TRUTH gets a record for each turn: when its functions began and ended to run (ns since 1970), and N: three 64-bit numbers.
use strict;
use warnings;
no strict 'refs';
use Time::HiRes qw(clock_gettime CLOCK_REALTIME);
use Symbol qw(delete_package);

use constant STEP => 100000;    # ns
use constant FIRST => 100000000;

sub now { return int(clock_gettime(CLOCK_REALTIME) * 1e6) * 1000 }

sub max { return $_[0] > $_[1] ? $_[0] : $_[1] }

sub evaluated
{
	my ($line, $file, $text) = @_;
	my $made = eval "#line $line \"$file\"\n$text" or die $@;
	return $made;
}

# The function of turn n, and how to free it.
sub made
{
	my ($kind, $n) = @_;
	my ($file, $line) = $kind eq 'function' ? ("<churn $n>", $n % 1000 + 1) : ($kind eq 'anonymous' ? "<churn $n>" : '<churn>', 1);
	if ($kind eq 'anonymous') {
		return evaluated($line, $file, 'my $g = sub { my $e = shift; 1 while main::now() < $e; 1 }; sub { $g->(@_); 1 }'), sub { };
	}
	if ($kind eq 'package') {
		return evaluated($line, $file, "package K_$n; sub g { my \$e = shift; 1 while main::now() < \$e; 1 } sub f { g(\@_); 1 } \\&f"),
			sub { delete_package("K_$n") };
	}
	return evaluated($line, $file, "sub g_$n { my \$e = shift; 1 while now() < \$e; 1 } sub f_$n { g_$n(\@_); 1 } \\&f_$n"),
		sub { undef &{"f_$n"}; undef &{"g_$n"}; delete @main::{"f_$n", "g_$n"} };
}

sub turn
{
	my ($kind, $n, $end) = @_;
	my ($function, $free) = made($kind, $n);
	my $begun = now();
	$function->(max($end, $begun + 20000));
	my $after = now();
	$free->();
	return pack 'Q<3', $begun, $after, $n;
}

my ($truth, $kind) = @ARGV;
open my $out, '>:raw', $truth or die "$truth: $!";
$| = 1;
print "$$\n";
my ($n, $end) = (FIRST, now());
while (1) {
	my $records = '';
	for (1 .. 1000) {
		$n++;
		$end = max($end + STEP, now() - 1000000000);
		$records .= turn($kind, $n, $end);
	}
	syswrite $out, $records;
}
