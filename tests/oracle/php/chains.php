<?php
// SPDX-License-Identifier: Apache-2.0
/*
 * Runs through situations, each of which is a chain of calls of a known shape, and spends its time in the innermost function. Writes
 * what a profiler must see of each (the truth, in the form that tests/oracle/python/chains.py has) before it begins.
 *
 *	php chains.php TRUTH [THREAD]
 *
 * THREAD, its number in the kernel, stands in the truth.
 *
 * A situation is run once while its innermost function looks at debug_backtrace(): that is its chain. Functions s12_… and classes S12…
 * belong to situation 12.
 */
const ROUNDS = 400000;

$observed = null; // an array while a situation is observed

function leaf($n)
{
    global $observed;
    if ($observed !== null) {
        $observed = debug_backtrace();
        return $n;
    }
    for ($i = 0; $i < ROUNDS; $i++) {
        $n = ($n * 31 + $i) % 1000003;
        if ($n == 7)
            $n++;
    }
    return $n;
}

function s01_recursion($depth)
{
    return $depth ? s01_recursion($depth - 1) : leaf(1);
}

class S02Base
{
    protected $seed = 2;
    function method($x)
    {
        return $this->inner($x + $this->seed);
    }
    protected function inner($x)
    {
        return static::fixed($x);
    }
    static function fixed($x)
    {
        return leaf($x);
    }
}

class S02Derived extends S02Base
{
    function method($x)
    {
        return parent::method($x) + 1;
    }
}

function s02_methods()
{
    return (new S02Derived)->method(1);
}

function s03_closures()
{
    $k = 3;
    $inner = function ($x) use ($k) {
        return leaf($x + $k);
    };
    $outer = static function ($x) use ($inner) {
        return $inner($x);
    };
    return $outer(1);
}

function s04_array_map()
{
    return array_map(function ($x) {
        return leaf($x);
    }, [1, 2]);
}

class S05Order
{
    function sorted()
    {
        $a = [3, 1];
        usort($a, [$this, 'compare']);
        return $a;
    }
    function compare($x, $y)
    {
        return leaf($x) * 0 + ($x <=> $y);
    }
}

function s05_usort()
{
    return (new S05Order)->sorted();
}

function s06_numbers($n)
{
    for ($i = 0; $i < $n; $i++)
        yield leaf($i);
}

function s06_generator()
{
    $sum = 0;
    foreach (s06_numbers(2) as $x)
        $sum += $x;
    return $sum;
}

function s07_coroutine()
{
    $g = (function () {
        while (true)
            leaf(yield 1);
    })();
    $g->current();
    return $g->send(7);
}

function s08_throws()
{
    throw new RuntimeException('s08');
}

function s08_exceptions()
{
    try {
        s08_throws();
    } catch (RuntimeException $e) {
        return leaf(8);
    }
}

function s09_finally()
{
    try {
        return 9;
    } finally {
        leaf(9);
    }
}

function s10_eval()
{
    return eval("\nreturn leaf(10);");
}

function s11_include()
{
    return include $GLOBALS['included'];
}

class S12Magic
{
    function __call($name, $arguments)
    {
        return leaf($arguments[0]);
    }
    static function __callStatic($name, $arguments)
    {
        return leaf($arguments[0]);
    }
    function __get($name)
    {
        return leaf(strlen($name));
    }
    function __toString()
    {
        leaf(1);
        return 's12';
    }
    function __invoke($x)
    {
        return leaf($x);
    }
}

function s12_call()
{
    return (new S12Magic)->missing(12);
}

function s13_call_static()
{
    return S12Magic::missing(13);
}

function s14_get()
{
    return (new S12Magic)->missing;
}

function s15_to_string()
{
    return 'x' . new S12Magic;
}

function s16_invoke()
{
    return array_map(new S12Magic, [16]);
}

class S17List implements IteratorAggregate, ArrayAccess, Countable
{
    #[ReturnTypeWillChange]
    function getIterator()
    {
        return new S17Iterator;
    }
    #[ReturnTypeWillChange]
    function offsetExists($i)
    {
        return true;
    }
    #[ReturnTypeWillChange]
    function offsetGet($i)
    {
        return leaf($i);
    }
    #[ReturnTypeWillChange]
    function offsetSet($i, $value)
    {
    }
    #[ReturnTypeWillChange]
    function offsetUnset($i)
    {
    }
    #[ReturnTypeWillChange]
    function count()
    {
        return leaf(17) * 0 + 1;
    }
}

class S17Iterator implements Iterator
{
    private $i = 0;
    #[ReturnTypeWillChange]
    function current()
    {
        return leaf($this->i);
    }
    #[ReturnTypeWillChange]
    function key()
    {
        return $this->i;
    }
    #[ReturnTypeWillChange]
    function next()
    {
        $this->i++;
    }
    #[ReturnTypeWillChange]
    function rewind()
    {
        $this->i = 0;
    }
    #[ReturnTypeWillChange]
    function valid()
    {
        return $this->i < 1;
    }
}

function s17_iterator()
{
    foreach (new S17List as $x)
        return $x;
}

function s18_offset()
{
    return (new S17List)[18];
}

function s19_count()
{
    return count(new S17List);
}

class S20Destructor
{
    function __destruct()
    {
        leaf(20);
    }
}

function s20_destructor()
{
    $o = new S20Destructor;
    $o = null;
}

function s21_preg()
{
    return preg_replace_callback('/a/', function ($m) {
        return (string)leaf(21);
    }, 'bab');
}

function s22_handler($number, $text)
{
    leaf($number);
    return true;
}

function s22_error()
{
    set_error_handler('s22_handler');
    trigger_error('s22', E_USER_NOTICE);
    restore_error_handler();
}

function s23_named($x)
{
    return leaf($x);
}

function s23_call_user_func()
{
    return call_user_func_array('s23_named', [call_user_func('strlen', 'abc')]);
}

class S24Nested
{
    function run($depth)
    {
        return array_map(function ($x) use ($depth) {
            return $depth ? $this->run($depth - 1) : leaf($x);
        }, [1]);
    }
}

function s24_nested()
{
    return (new S24Nested)->run(12);
}

function s25_fiber()
{
    $f = new Fiber(function ($x) {
        return leaf($x);
    });
    $f->start(25);
}

function s26_fiber_resumed()
{
    $f = new Fiber(function () {
        $x = Fiber::suspend(1);
        leaf($x);
    });
    $f->start();
    $f->resume(26);
}

function s27_internal()
{
    global $observed, $large;
    if ($observed !== null)
        return leaf(27);
    return md5($large);
}

function s28_anonymous_class()
{
    return (new class {
        function s28_method()
        {
            return leaf(28);
        }
    })->s28_method();
}

// --- the truth

function situations()
{
    foreach (get_defined_functions()['user'] as $name)
        if (preg_match('/^s\d\d_/', $name) && !in_array($name, ['s06_numbers', 's08_throws', 's22_handler', 's23_named'])
            && (class_exists('Fiber') || !preg_match('/fiber/', $name)))
            $found[] = $name;
    return $found;
}

function run($name)
{
    $name == 's01_recursion' ? $name(30) : $name();
}

function first_line($function, $class, $file, $line)
{
    global $sources;
    if (strpos($function, '{closure') === 0) {
        while (!preg_match('/\bfunction \(/', $sources[$file][$line - 1]))
            $line--;
        return $line;
    }
    $reflection = $class !== null ? new ReflectionMethod($class, $function) : new ReflectionFunction($function);
    return $reflection->isInternal() ? 0 : $reflection->getStartLine();
}

/* What debug_backtrace() said of a situation, as the steps of its chain, root first. */
function chain($trace, $situation)
{
    global $leaf_lines;
    $steps = [];
    $line = null;
    foreach ($trace as $i => $t) {
        $is_file = in_array($t['function'], ['include', 'eval'], true) && !isset($t['class']);
        $file = $i ? ($trace[$i - 1]['file'] ?? '') : __FILE__;
        $line = $i ? ($trace[$i - 1]['line'] ?? 0) : 0;
        $class = $t['class'] ?? null;
        $first = $is_file ? 1 : first_line($t['function'], $class, $file, $line);
        $name = $is_file ? '<main>' : ($class !== null ? strtok($class, "\0") . '::' : '') . $t['function'];
        $steps[] = ['name' => $name, 'file' => $file, 'first' => $first, 'lines' => $i ? [$line] : array_values($leaf_lines), 'leaf' => !$i];
    }
    $last = end($trace);
    $steps[] = ['name' => '<main>', 'file' => __FILE__, 'first' => 1, 'lines' => [$last['line']], 'leaf' => false];
    $steps = array_reverse($steps);
    if ($situation == 's27_internal') {
        array_pop($steps);
        $steps[count($steps) - 1]['lines'] = [$steps[count($steps) - 1]['lines'][0] + 1];
        $steps[] = ['name' => 'md5', 'file' => '', 'first' => 0, 'lines' => [0], 'leaf' => true];
    }
    foreach ($steps as $i => &$s) {
        $by_php = $i && $steps[$i - 1]['file'] === '';
        $s['between'] = $s['file'] !== '' && ($by_php || needs_native($s['name'])) ? 'zend_call|execute|generator|zend_|php|\+0x' : '';
        $s['direct'] = $s['between'] === '';
        $s['prepared'] = true; // the caller runs code of its own at that line, before and after
    }
    return $steps;
}

/* Functions that the interpreter calls by native code, and files that it runs by it. */
function needs_native($name)
{
    return preg_match('/::(__get|__toString|__destruct|getIterator|current|key|next|rewind|valid|offsetGet|count)$|^s06_numbers$/', $name);
}

function all_functions()
{
    $found = [];
    foreach (get_defined_functions()['user'] as $f) {
        $r = new ReflectionFunction($f);
        $found[] = [$r->getFileName(), $r->getName(), $r->getStartLine(), $r->getEndLine()];
    }
    foreach (get_declared_classes() as $class)
        foreach ((new ReflectionClass($class))->getMethods() as $m)
            if (!$m->isInternal())
                $found[] = [$m->getFileName(), strtok($m->class, "\0") . '::' . $m->name, $m->getStartLine(), $m->getEndLine()];
    return $found;
}

function internal_functions()
{
    $found = [];
    foreach (get_defined_functions()['internal'] as $f)
        $found[] = [$f, 0, 0];
    foreach (get_declared_classes() as $class)
        foreach ((new ReflectionClass($class))->getMethods() as $m)
            if ($m->isInternal())
                $found[] = [$m->class . '::' . $m->name, 0, 0];
    return $found;
}

/* JSON without the extension, which is not built in everywhere. */
function encode($value)
{
    if (is_string($value))
        return '"' . addcslashes($value, "\\\"") . '"';
    if (!is_array($value))
        return var_export($value, true);
    if (array_keys($value) === range(0, count($value) - 1) || !$value)
        return '[' . implode(',', array_map('encode', $value)) . ']';
    foreach ($value as $k => $v)
        $parts[] = encode((string)$k) . ':' . encode($v);
    return '{' . implode(',', $parts) . '}';
}

$included = $argv[1] . '.included_s11.php';
file_put_contents($included, "<?php\n// situation 11\nreturn leaf(11);\n");
$large = str_repeat('0123456789', 300000);
$sources = [__FILE__ => file(__FILE__)];
$start = (new ReflectionFunction('leaf'))->getStartLine();
$leaf_lines = array_diff(range($start, (new ReflectionFunction('leaf'))->getEndLine() - 1), [$start + 4, $start + 5]);
$all = situations();
$truth = ['pid' => getmypid(), 'tid' => (int)($argv[2] ?? 0), 'language' => 'php', 'loop' => 'execute_ex', 'idle_loops' => true];
foreach ($all as $name) {
    $observed = [];
    run($name);
    $traces[$name] = $observed;
}
$observed = null;
foreach ($traces as $name => $trace)
    $truth['situations'][$name] = ['chain' => chain($trace, $name), 'thread' => false, 'own_stack' => strpos($name, 'fiber') !== false];
$truth['own'] = all_functions();
$truth['own'][] = [__FILE__, '<main>', 1, count($sources[__FILE__])];
foreach ($truth['situations'] as $s)
    foreach ($s['chain'] as $step)
        $truth['own'][] = [$step['file'], $step['name'], $step['first'], $step['first'] + 6]; // closures, too
$truth['library'] = ['' => internal_functions()];
foreach ($all as $name) // they are run from another line than they were observed from
    $truth['situations'][$name]['chain'][0]['lines'] = [count($sources[__FILE__])];
file_put_contents($argv[1] . '.children', '');
file_put_contents($argv[1] . '.part', encode($truth));
rename($argv[1] . '.part', $argv[1]);
while (true)
    foreach ($all as $name)
        run($name);
