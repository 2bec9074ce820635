# SPDX-License-Identifier: Apache-2.0
"""Servers of Debian in languages other than Python, each with an application and somebody who asks all the time."""
import http.client
import os
import re
import shutil
import socket
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import debian  # noqa: E402

CACHE = os.path.join(debian.CACHE, "applications")
SUITE = "bookworm"
PACKAGES = ["php8.2-fpm", "php8.2-opcache", "libapache2-mod-php8.2", "apache2", "puma", "ruby-sinatra", "spamassassin", "spamd", "libnet-dns-perl", "redis-server", "nginx",
            "libnginx-mod-http-lua", "lua-cjson"]
PORTS = {"php_fpm": 18441, "php_apache": 18442, "puma": 18443, "spamd": 18444, "redis": 18445, "nginx": 18446}
MAILS = 40

FPM = """[global]
error_log = /application/error.log
daemonize = no
[www]
user = root
listen = 127.0.0.1:{port}
pm = static
pm.max_children = 3
"""
APACHE = """ServerRoot /usr/lib/apache2
ServerName localhost
Listen 127.0.0.1:{port}
PidFile /application/apache.pid
ErrorLog /application/error.log
LoadModule mpm_prefork_module modules/mod_mpm_prefork.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule php_module modules/libphp8.2.so
StartServers 3
MaxRequestWorkers 3
DocumentRoot /application
<FilesMatch "\\.php$">
SetHandler application/x-httpd-php
</FilesMatch>
"""
NGINX = """load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
user root;
daemon off;
worker_processes 2;
pid /application/nginx.pid;
error_log /application/nginx.log;
events {{}}
http {{
	access_log off;
	client_body_temp_path /application/body;
	server {{
		listen 127.0.0.1:{port};
		location / {{ content_by_lua_file /application/app.lua; }}
	}}
}}
"""


def prepare(folder):
    """→ the root file system with the applications in its folder /application"""
    root = debian.fetch(SUITE, PACKAGES, CACHE)
    work = os.path.join(root, "application")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    os.chmod(os.path.join(root, "tmp"), 0o1777)
    for name in ("app.php", "app.rb", "config.ru", "app.lua"):
        shutil.copy(os.path.join(HERE, name), work)
    for name, text in (("fpm.conf", FPM.format(port=PORTS["php_fpm"])), ("apache.conf", APACHE.format(port=PORTS["php_apache"])),
                       ("nginx.conf", NGINX.format(port=PORTS["nginx"]))):
        with open(os.path.join(work, name), "w", encoding="ascii") as f:
            f.write(text)
    for path, lines in (("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/application:/bin/false\nnobody:x:65534:65534::/application:/bin/false\n"),
                        ("etc/group", "root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n"), ("etc/hosts", "127.0.0.1 localhost\n")):
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "w", encoding="ascii") as f:
            f.write(lines)
    null = os.path.join(root, "dev", "null")
    for name, minor in (("null", 3), ("zero", 5), ("urandom", 9)):
        path = os.path.join(root, "dev", name)
        if not os.path.exists(path):
            os.mknod(path, 0o020666, os.makedev(1, minor))
    assert os.path.exists(null)
    return root


# --- who asks
def ask_http(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status == 200 and len(text) > 30


def record(kind, content):
    return struct.pack(">BBHHBB", 1, kind, 1, len(content), 0, 0) + content


def ask_fastcgi(port, script):
    """FastCGI 1.0: begin, parameters, no input; the answer's end."""
    parameters = {"SCRIPT_FILENAME": script, "REQUEST_METHOD": "GET", "SERVER_PROTOCOL": "HTTP/1.1"}
    pairs = b"".join(bytes([len(k), len(v)]) + k.encode() + v.encode() for k, v in parameters.items())
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.sendall(record(1, struct.pack(">HB5x", 1, 0)) + record(4, pairs) + record(4, b"") + record(5, b""))
        got = b""
        while True:
            some = s.recv(65536)
            if not some:
                break
            got += some
    return b"Status: 5" not in got and b"\r\n\r\n" in got


def mail(i):
    lines = [f"From: a{i}@example.org", f"To: b{i}@example.org", f"Subject: offer number {i}!!!", f"Message-ID: <{i}@example.org>",
             "Date: Tue, 03 Mar 2026 10:00:00 +0000", "", *(f"Buy {k} now, http://example.org/{i}/{k} for $ {k * i} only, click here" for k in range(30))]
    return "\r\n".join(lines).encode()


def ask_spamd(port, i):
    content = mail(i)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        s.sendall(b"CHECK SPAMC/1.2\r\nContent-length: %d\r\n\r\n" % len(content) + content)
        s.shutdown(socket.SHUT_WR)
        got = b""
        while some := s.recv(65536):
            got += some
    return b"EX_OK" in got


LUA = """local function words(text)
	local n = 0
	text:gsub("%w+", function(w) n = n + #w end)
	return n
end
local rows = {}
for i = 1, tonumber(ARGV[1]) do
	rows[i] = {title = "post " .. i, text = ("some text & more of it "):rep(4 + i % 5), rank = (i * 7919) % 1009}
end
table.sort(rows, function(a, b) return a.rank < b.rank end)
local sum = 0
for i, row in ipairs(cjson.decode(cjson.encode(rows))) do
	sum = sum + words(row.text)
	redis.call("SET", "row:" .. i, row.title)
end
return {sum, ("-"):rep(40)}
"""


def ask_redis(port, n):
    """A script in Redis's own protocol."""
    arguments = [b"EVAL", LUA.encode(), b"0", str(n).encode()]
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.sendall(b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in arguments))
        got = b""
        while got[:1] in (b"", b"*") and not got.endswith(b"-" * 40 + b"\r\n"):
            some = s.recv(65536)
            if not some:
                break
            got += some
    return got.startswith(b"*2\r\n")


ASKS = {"php_fpm": lambda i: ask_fastcgi(PORTS["php_fpm"], "/application/app.php"), "php_apache": lambda i: ask_http(PORTS["php_apache"], "/app.php"),
        "puma": lambda i: ask_http(PORTS["puma"], "/60"), "nginx": lambda i: ask_http(PORTS["nginx"], f"/?{300 + i % 10}"), "spamd": lambda i: ask_spamd(PORTS["spamd"], i % MAILS), "redis": lambda i: ask_redis(PORTS["redis"], 300 + i % 10)}
COMMANDS = {
    "php_fpm": ["/usr/sbin/php-fpm8.2", "-n", "-R", "-y", "/application/fpm.conf", "-d", "zend_extension=opcache.so", "-d", "opcache.file_update_protection=0"],
    "php_apache": ["/usr/sbin/apache2", "-X", "-f", "/application/apache.conf"],
    "puma": ["/usr/bin/puma", "-b", f"tcp://127.0.0.1:{PORTS['puma']}", "-w", "2", "-t", "2:4", "-e", "production", "/application/config.ru"],
    "spamd": ["/usr/sbin/spamd", "-L", "-x", "-i", "127.0.0.1", "-p", str(PORTS["spamd"]), "-m", "3", "-u", "nobody", "--syslog=stderr"],
    "nginx": ["/usr/sbin/nginx", "-c", "/application/nginx.conf"],
    "redis": ["/usr/bin/redis-server", "--bind", "127.0.0.1", "--port", str(PORTS["redis"]), "--save", "", "--appendonly", "no", "--dir", "/application"],
}


def resumed_line():
    """Where the function of app.lua begins that nginx itself resumes, as it does with all coroutines: nothing of Lua is below it."""
    with open(os.path.join(HERE, "app.lua"), encoding="utf-8") as f:
        return next(i for i, line in enumerate(f, 1) if "coroutine.wrap(" in line)


# language, the function that is the root of its stacks
LANGUAGES = {"php_fpm": ("php", "execute_ex", r"^<main>$"), "php_apache": ("php", "execute_ex", r"^<main>$"),
             "puma": ("ruby", r"vm_exec", r"^(<main>|block in (spawn_thread|run|start!|create_with_logging_context))$"), "spamd": ("perl", "Perl_runops", r"^\(main\)|<main>$"),
             "redis": ("lua", r"^lua_p?call$", r"^main chunk$"), "nginx": ("lua", r"^lua_(p?call|resume)$", rf"^(main chunk|function </application/app.lua:{resumed_line()}>)$")}
WAIT = re.compile(r"^(server|client|reactor|thread_pool|minissl|const|socket)\.rb$")  # files of puma, and the one of sockets, whose methods wait for clients and for the lock
