<?php
// SPDX-License-Identifier: Apache-2.0
/*
 * A PHP program, without opcache, whose functions live a tenth of a millisecond. It runs on PHP 7.4 to 8.5.
 *
 *	php churn.php TRUTH KIND
 *
 * Turn N compiles code of its own, runs it, and frees it at once, so that the next turn's functions and strings take the memory of this
 * one's. By KIND:
 *
 *	closure    a closure, which calls another one, in an eval: at line N%1000+1 of it
 *	place      the same, always at line 1, in an eval that an eval has at line N%900+100: what tells them apart is the file's name
 *	include    the same in a file of its own, N.php
 *	request    one turn for each request to the interpreter, whose end frees all (embed.c): f_N, which calls k_N::g_N
 *
 * TRUTH gets a record for each turn: when its functions began and ended to run (ns since 1970), and N: three 64-bit numbers.
 */
const STEP = 100000; // ns
const FIRST = 100000000;
const CLOSURES = 'return function ($end) { return (function ($end) { while (now() < $end); })($end); };';

function now()
{
    $t = explode(' ', microtime()); // a float has too few digits
    return (int)$t[1] * 1000000000 + (int)substr($t[0], 2, 8) * 10;
}

/* The first function of turn n. */
function made($kind, $n)
{
    global $folder;
    if ($kind == 'closure')
        return eval(str_repeat("\n", $n % 1000) . CLOSURES);
    if ($kind == 'place')
        return eval(str_repeat("\n", $n % 900 + 99) . "return eval('" . CLOSURES . "');");
    if ($kind == 'include') {
        file_put_contents("$folder/$n.php", '<?php ' . CLOSURES);
        $function = include "$folder/$n.php";
        unlink("$folder/$n.php");
        return $function;
    }
    eval("function f_$n(\$end) { return k_$n::g_$n(\$end); } class k_$n { static function g_$n(\$end) { while (now() < \$end); } }");
    return "f_$n";
}

/* → its record */
function turn($kind, $n, $end)
{
    $function = made($kind, $n);
    $begin = now();
    $function(max($end, $begin + 20000));
    return pack('PPP', $begin, now(), $n);
}

function turns($kind, $out)
{
    $end = now();
    for ($n = FIRST;;) {
        $records = '';
        for ($i = 0; $i < 1000; $i++) {
            $end = max($end + STEP, now() - 1000000000);
            $records .= turn($kind, ++$n, $end);
        }
        fwrite($out, $records);
    }
}

$folder = dirname($argv[1]);
$out = fopen($argv[1], $argv[2] == 'request' ? 'ab' : 'wb');
if ($argv[2] == 'request') {
    fwrite($out, turn('request', (int)$argv[3], now() + STEP));
} else {
    echo getmypid(), "\n";
    turns($argv[2], $out);
}
