<?php
// SPDX-License-Identifier: Apache-2.0
// A page in the manner of a content management system: hooks, templates, a class loader, regular expressions, JSON.
namespace App;

interface Renders
{
    public function render(array $row): string;
}

final class Hooks
{
    private array $hooks = [];

    public function add(string $name, callable $fn): void
    {
        $this->hooks[$name][] = $fn;
    }

    public function apply(string $name, $value)
    {
        return array_reduce($this->hooks[$name] ?? [], fn ($v, $fn) => call_user_func($fn, $v), $value);
    }
}

abstract class Template implements Renders
{
    protected Hooks $hooks;

    public function __construct(Hooks $hooks)
    {
        $this->hooks = $hooks;
    }

    public static function escape(string $text): string
    {
        return htmlspecialchars($text, ENT_QUOTES);
    }
}

final class Post extends Template
{
    public function render(array $row): string
    {
        $text = preg_replace_callback('/\b(\w)(\w*)\b/', fn ($m) => strtoupper($m[1]) . $m[2], $row['text']);
        return $this->hooks->apply('post', sprintf('<h2>%s</h2><p>%s</p>', self::escape($row['title']), self::escape($text)));
    }
}

function rows(int $n): \Generator
{
    for ($i = 0; $i < $n; $i++) {
        yield ['title' => "post $i", 'text' => str_repeat('some text & more of it ', 4 + $i % 5), 'rank' => crc32((string) $i)];
    }
}

function page(int $n): string
{
    $hooks = new Hooks();
    $hooks->add('post', fn ($html) => str_replace('&amp;', '&#38;', $html));
    $hooks->add('post', 'trim');
    $post = new Post($hooks);
    $rows = iterator_to_array(rows($n), false);
    usort($rows, fn ($a, $b) => $a['rank'] <=> $b['rank']);
    $decoded = json_decode(json_encode($rows), true);
    ob_start();
    foreach (array_filter($decoded, fn ($row) => $row['rank'] % 7 > 0) as $row) {
        echo $post->render($row);
    }
    return ob_get_clean();
}

echo md5(page(120)), "\n";
