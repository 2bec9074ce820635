# SPDX-License-Identifier: Apache-2.0
"""Databases, cryptography, media, compression, tools."""
import glob
import os
import shutil

from .load import Load, Skip

SQL = """create table t(a integer primary key, b text, c real); begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000) insert into t select i, hex(i * 7919), i / 7.0 from n; commit;
create index x on t(b); analyze;
select b, count(*), sum(c) from t where b like '%3%' group by substr(b, 1, 2) order by 3 desc limit 9;
select count(*) from t x join t y on x.b = y.b || '' where x.a % 3 = 0; update t set c = c * 2 where b > '5'; delete from t where a % 5 = 0;
with w as (select a, b, row_number() over (partition by substr(b, 1, 1) order by c) r from t) select max(r), json_group_array(b) from w where r < 9;
"""


def sqlite(w):
    w.write("a.sql", SQL)
    return Load({"sqlite3"}, [f"{w.need('sqlite3')} :memory: < a.sql"])


def postgres_folder():
    for name in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True) + [os.path.dirname(shutil.which("postgres") or "")]:
        if name and all(os.access(os.path.join(name, p), os.X_OK) for p in ("postgres", "initdb", "pgbench")):
            return name
    raise Skip("postgres, initdb and pgbench are not installed")


def postgres(w):
    """Refuses to run as root: as nobody, in a folder of its own."""
    where, port, data = postgres_folder(), w.free_port(), w.path("data")
    as_nobody = f"{w.need('setpriv')} --reuid=65534 --regid=65534 --clear-groups"
    os.mkdir(data)
    os.chown(data, 65534, 65534)
    w.run(*as_nobody.split(), f"{where}/initdb", "-D", data, "-U", "mix", "-A", "trust", "--no-sync", env={"HOME": data, "PATH": os.environ["PATH"]})
    server = f"exec {as_nobody} {where}/postgres -D {data} -p {port} -h 127.0.0.1 -k '' -c fsync=off"
    client = f"-h 127.0.0.1 -p {port} -U mix postgres"
    return Load({"postgres", "pgbench", "psql"}, [f"{where}/pgbench -i -q -s 2 {client} && {where}/pgbench -T 3600 -c 3 {client}"], [server])


def redis(w):
    port = w.free_port()
    return Load({"redis-server", "redis-benchmark", "redis-check-rdb", "redis-cli"},
                [f"{w.need('redis-benchmark')} -h 127.0.0.1 -p {port} -q -n 20000 -r 1000 -d 100"],
                [f"exec {w.need('redis-server')} --bind 127.0.0.1 --port {port} --dir {w.folder} --save ''"])


def openssl(w):
    w.write("data", w.rng.randbytes(8 << 20))
    exe, port = w.need("openssl"), w.free_port()
    w.run(exe, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem")
    digests = ["sha512", "sha256", "sha1", "md5", "sha3-256", "blake2b512"]
    ciphers = ["aes-256-cbc", "aes-128-ctr", "chacha20", "camellia-128-cbc"]
    speed = "rsa2048 ecdsap256 ecdhx25519 ed25519 dsa1024 sha512 ghash"
    bulk = "; ".join([f"{exe} dgst -{d} data" for d in digests] + [f"{exe} enc -{c} -pass pass:x -pbkdf2 -in data" for c in ciphers] +
                     [f"{exe} speed -seconds 1 {speed} 2>&1", f"{exe} speed -seconds 1 -evp aes-128-gcm 2>&1",
                      f"{exe} speed -seconds 1 -evp chacha20-poly1305 2>&1"])
    return Load({"openssl"}, [bulk, f"{exe} s_time -connect 127.0.0.1:{port} -new -time 5 2>&1"],
                [f"exec {exe} s_server -accept 127.0.0.1:{port} -key key.pem -cert cert.pem -quiet -www"])


def x264(w):
    exe = w.need("ffmpeg")
    source = "-f lavfi -i testsrc2=size=640x360:rate=25:duration=4"
    return Load({"ffmpeg", "x264"}, [f"{exe} -nostdin -v error -threads 2 {source} -c:v libx264 -preset medium -threads 2 -y -f mp4 a.mp4; "
                                     f"{exe} -nostdin -v error -threads 1 -i a.mp4 -vf scale=320:180,hqdn3d -f null -"])


def codecs(w):
    """Other encoders and decoders, under another name."""
    exe = shutil.copy(os.path.realpath(w.need("ffmpeg")), w.path("ffmpeg_codecs"))
    listed = w.run(exe, "-v", "error", "-encoders")
    video, audio = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=2", "-f lavfi -i sine=frequency=440:duration=20"
    commands = []
    for encoder, source, suffix in (("libx265 -preset fast -x265-params log-level=error", video, "mkv"), ("mpeg4", video, "mkv"), ("libvpx-vp9 -cpu-used 8", video, "mkv"),
                                    ("mjpeg", video, "mkv"), ("ffv1", video, "mkv"), ("libmp3lame", audio, "mka"), ("libopus", audio, "mka"),
                                    ("aac", audio, "mka"), ("flac", audio, "mka"), ("libvorbis", audio, "mka")):
        if encoder.split()[0] in listed:
            kind, out = ("v" if source is video else "a"), f"{encoder.split()[0]}.{suffix}"
            commands.append(f"{exe} -nostdin -v error -threads 1 {source} -c:{kind} {encoder} -threads 1 -y {out}; "
                            f"{exe} -nostdin -v error -threads 1 -i {out} -f null -")
    return Load({"ffmpeg_codecs"}, ["; ".join(commands)])


def jpeg(w):
    exe = w.need("cjpeg"), w.need("djpeg")
    width, height = 1024, 768
    rows = b"".join(bytes((x * 3 + y, x ^ y, (x * y) >> 4)[c] & 255 for x in range(width) for c in range(3)) for y in range(height))
    w.write("a.ppm", b"P6\n%d %d\n255\n" % (width, height) + rows)
    return Load({"cjpeg", "djpeg"}, [f"{exe[0]} -quality 80 a.ppm > a.jpg; {exe[0]} -progressive -optimize a.ppm > b.jpg; "
                                     f"{exe[1]} a.jpg; {exe[1]} -scale 1/2 b.jpg; {exe[1]} -dct fast -nosmooth a.jpg"])


def compress(w):
    w.write("text", w.text(1 << 20))
    some = [f"{p} {o} < text > out; {p} -dc < out" for p, o in (("gzip", "-c"), ("bzip2", "-c"), ("xz", "-2 -c"), ("zstd", "-9 -c"))
            if shutil.which(p)]
    if not some:
        raise Skip("no compressor is installed")
    return Load({"gzip", "bzip2", "xz", "zstd"}, ["; ".join(some)])


def git(w):
    exe, repo = w.need("git"), w.path("repo")
    os.mkdir(repo)
    me = ("-c", "user.name=mix", "-c", "user.email=mix@example.org")
    w.run(exe, "init", "-q", repo)
    for i in range(10):
        for k in range(8):
            w.write(f"repo/d{k % 3}/f{k}", w.text(3000 * (k + 1)))
        w.run(exe, "-C", repo, "add", ".")
        w.run(exe, "-C", repo, *me, "commit", "-q", "-m", f"commit {i}")
    return Load({"git"}, [f"{exe} -C repo --no-pager log -p --stat; {exe} -C repo --no-pager blame d0/f0; {exe} -C repo repack -q -a -d -f; "
                          f"{exe} -C repo fsck; {exe} -C repo --no-pager grep -c 'a.*b'; rm -rf copy; {exe} clone -q repo copy"], jit=True)


def gdb(w):
    source = w.write("a.c", "#include <stdio.h>\nstruct s { int a; char *b; };\nint f(struct s *s) { return s->a ? f(&(struct s){s->a - 1, 0}) + 1 : puts(s->b ? s->b : \"x\"); }\n"
                     "int main(void) { return f(&(struct s){9, 0}); }\n")
    w.run(w.need("gcc"), "-g", "-o", w.path("a"), source)
    commands = ["break puts", "run", "bt", "info functions str", "python print(sum(range(99999)))", "disassemble printf", "stepi 2000", "bt"]
    return Load({"gdb"}, [f"{w.need('gdb')} -nx -batch " + " ".join(f"-ex '{c}'" for c in commands) + " a"])


LOADS = {"sqlite3": (sqlite, ["sqlite3"]), "postgres": (postgres, ["postgresql"]), "redis": (redis, ["redis-server", "redis-tools"]),
         "openssl": (openssl, ["openssl"]), "ffmpeg x264": (x264, ["ffmpeg"]), "ffmpeg codecs": (codecs, ["ffmpeg"]), "libjpeg-turbo": (jpeg, ["libjpeg-turbo-progs"]),
         "compression": (compress, ["gzip", "bzip2", "xz-utils", "zstd"]), "git": (git, ["git"]), "gdb": (gdb, ["gdb"])}
