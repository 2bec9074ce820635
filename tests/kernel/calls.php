<?php
// SPDX-License-Identifier: Apache-2.0
/* What calls.py is, in PHP. usage: calls.php READY SECONDS */
function burn()
{
    $x = 0; // burn
    for ($i = 0; $i < 1000000; $i++) // burn
        $x = ($x * 31 + $i) % 1000003; // burn
    return $x; // burn
}

function by_key($a, $b)
{
    return burn() + $a - $b;
}

function ordered()
{
    $numbers = [2, 1];
    usort($numbers, 'by_key');
}

class Kept
{
    function __get($name)
    {
        ordered();
        return $name;
    }

    function last()
    {
        return $this->unknown;
    }
}

function produced($kept)
{
    while (true)
        yield $kept->last();
}

function main($arguments)
{
    $end = microtime(true) + (float)$arguments[2];
    file_put_contents($arguments[1], 'ready');
    foreach (produced(new Kept) as $_)
        if (microtime(true) > $end)
            return;
}

main($argv);
