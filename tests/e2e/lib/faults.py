# SPDX-License-Identifier: Apache-2.0
"""What a faulty Collector does to a request: the actions of the scripts in faulty.py, each for faulty_server's calls.

Who reads a request and does not say what became of it leaves its fate at "unknown"; who does not read it whole, at "later".
"""
import base64
import email.utils
import time

from . import http2
from .faulty_server import Step

RETRYABLE = (1, 4, 10, 11, 14, 15)  # OTLP/gRPC; 8 only with RetryInfo
CODES = ("OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
         "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
         "UNAUTHENTICATED").split()
HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
LARGE = 5 << 20  # bytes of an answer: more than anybody needs
NOISE = bytes(range(255, -1, -1)) * 16


# --- protobuf and details
def field(number, value):
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def status_message(code, text, delay=None):
    out = field(1, code) + field(2, text.encode())
    if delay is not None:
        whole = field(1, int(delay)) + field(2, int(delay % 1 * 1e9))
        out += field(3, field(1, b"type.googleapis.com/google.rpc.RetryInfo") + field(2, field(1, whole)))
    return out


def retry_info(code, delay):
    return ("grpc-status-details-bin", base64.b64encode(status_message(code, "later", delay)).rstrip(b"="))


def partial(rejected, text):
    return field(1, (field(1, rejected) if rejected else b"") + field(2, text))


# --- makers of actions: (call) → None
def grpc_code(code, *more, fate=None, message="as the script says"):
    def act(call):
        call.read()
        call.fate(fate or ("later" if code in RETRYABLE else "refused"))
        call.answer(code, ("grpc-message", message), *more)
    return act


def grpc_headers(fate, *more, body=b"", **options):
    """A whole answer of headers and, with a body, data that ends the stream."""
    def act(call):
        call.read()
        call.fate(fate)
        call.start(*more, end=not body, **options)
        if body:
            call.peer.data(call.stream, body, True)
    return act


def partly(rejected, text):
    def act(call):
        call.read()
        n = len(call.attempt.samples)
        profiles = max(1, call.attempt.profiles)
        call.fate("stored", -(-n * min(rejected, profiles) // profiles))
        call.answer(body=partial(rejected, text))
    return act


def limit(most, http=False):
    """A receiver that takes no message of more than so many bytes."""
    def act(call):
        call.read()
        size = len(call.attempt.message)
        if size <= most:
            call.fate("stored")
            call.answer()
        elif http:
            call.fate("later")
            call.answer("413 Payload Too Large")
        else:
            call.fate("later")
            call.answer(8, ("grpc-message", f"grpc: received message larger than max ({size} vs. {most})"))
    return act


def away_for(seconds):
    """UNAVAILABLE for so long, then all is well."""
    begin = []

    def act(call):
        begin.append(time.monotonic())
        if begin[-1] - begin[0] < seconds:
            grpc_code(14)(call)
        else:
            call.ok()
    return act


def cut_at(tenths):
    """The connection ends after so many tenths of the message."""
    def act(call):
        call.read(tenths if tenths < 10 else None)
        call.cut()
    return act


def raw(data, hold=True, read=True):
    """Bytes that are no answer, then silence or the end."""
    def act(call):
        if read:
            call.read()
        call.peer.write(data(call) if callable(data) else data)
        call.hold() if hold else call.cut()
    return act


def reset(error, fate):
    def act(call):
        call.read()
        call.fate(fate)
        call.peer.rst(call.stream, error)
    return act


def early(code, *more):
    """Decides before it has seen the message."""
    def act(call):
        call.answer(code, *more)
    return act


def slowly(seconds, data):
    """All of an answer, byte by byte."""
    def act(call):
        call.read()
        call.fate("stored")
        whole = data(call)
        for i in range(len(whole)):
            call.peer.write(whole[i:i + 1])
            time.sleep(seconds / len(whole))
    return act


def late(call):
    """An answer after the sender's deadline."""
    call.read()
    time.sleep(2.5 * call.server.timeout)
    call.answer()
    call.closing = True


def whole_answer(call):
    """The bytes of an acceptance."""
    f = http2.frame
    return (f(http2.HEADERS, 4, call.stream, http2.block([(":status", "200"), ("content-type", "application/grpc")])) +
            f(http2.DATA, 0, call.stream, call.message()) +
            f(http2.HEADERS, 5, call.stream, http2.block([("grpc-status", "0")])))


def then_ok(before):
    """Something that must not disturb, then an acceptance."""
    def act(call):
        call.read()
        call.fate("stored")
        before(call)
        call.answer()
    return act


# --- single actions
def stall_after_headers(call):
    call.read()
    call.start()
    call.hold()


def stall_in_data(call):
    call.read()
    call.start()
    call.peer.write(http2.frame(http2.DATA, 0, call.stream, call.message())[:11])
    call.hold()


def stall_before_trailers(call):
    call.read()
    call.start()
    call.peer.data(call.stream, call.message())
    call.hold()


def stall_window(call):
    """The sender is never allowed more than the start of the message."""
    call.read(tenths=0)
    call.hold()


def silence(call):
    call.read()
    call.hold()


def cut_before_trailers(call):
    call.read()
    call.start()
    call.peer.data(call.stream, call.message())
    time.sleep(0.05)
    call.cut()


def goaway_unprocessed(call):
    call.read(tenths=5)
    call.peer.goaway(max(0, call.stream - 2), http2.ENHANCE_YOUR_CALM, b"too_many_pings")
    time.sleep(0.05)
    call.cut()


def goaway_graceful(call):
    """In the middle of a message, which it still takes and answers."""
    call.peer.goaway(http2.LAST_STREAM)
    call.read()
    call.fate("stored")
    call.peer.goaway(call.stream)
    call.answer()
    call.closing = True


def goaway_silent(call):
    """It says that it looks at the request, and ends."""
    call.read()
    call.peer.goaway(call.stream)
    time.sleep(0.05)
    call.cut()


def large_answer(call):
    """Nobody knows what it would have said in the end."""
    call.read()
    call.fate("refused")
    call.start()
    if call.peer.data_within_window(call.stream, LARGE):
        call.hold()


def beyond_window(call):
    call.read()
    call.start()
    call.peer.data(call.stream, bytes(16384) * 8)
    call.hold()


def wrong_stream(call):
    call.read()
    call.peer.headers(call.stream + 1000, [(":status", "200"), ("content-type", "application/grpc")], True)
    call.hold()


def no_streams(call):
    call.peer.open(((http2.MAX_CONCURRENT_STREAMS, 0),))
    call.hold()


def chatter(call):
    """As much as a client answers before it calls it a flood (nghttp2: 1,000 at once)."""
    for i in range(500):
        call.peer.write(http2.frame(http2.PING, 0, 0, i.to_bytes(8, "big")))
    for _ in range(100):
        call.peer.write(http2.frame(http2.SETTINGS, 0, 0))


def http_status(status, fate, *fields, **options):
    def act(call):
        call.read()
        call.fate(fate)
        call.answer(status, *fields, **options)
    return act


def http_date(call):
    call.read()
    call.fate("later")
    call.answer("503 Service Unavailable", "retry-after: " + email.utils.formatdate(time.time() + 3, usegmt=True))


def http_bytes(call):
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ntransfer-encoding: chunked\r\n\r\n2\r\n\x0a\x00\r\n0\r\n\r\n"


def http_partly(rejected, text):
    def act(call):
        call.read()
        n, profiles = len(call.attempt.samples), max(1, call.attempt.profiles)
        call.fate("stored", -(-n * min(rejected, profiles) // profiles))
        call.answer(body=partial(rejected, text))
    return act


def http_closes(call):
    """Answers, then ends the connection without having said so: the next request may go to a dead one."""
    call.read()
    call.fate("stored")
    call.answer()
    call.closing = True


# --- the rows
def once(code):
    return Step(f"code {CODES[code]} once", grpc_code(code))


CODES_ONCE = [once(code) for code in range(1, 17)]

ANSWERS = [
    Step("RetryInfo with UNAVAILABLE", grpc_code(14, retry_info(14, 1.5)), delay=1.5),
    Step("RetryInfo with RESOURCE_EXHAUSTED", grpc_code(8, retry_info(8, 1.2), fate="later"), delay=1.2),
    Step("pushback of 1,100 ms", grpc_code(14, ("grpc-retry-pushback-ms", "1100")), delay=1.1),
    Step("broken RetryInfo", grpc_code(14, ("grpc-status-details-bin", "*not base64*"))),
    Step("partial success", partly(1, b"one is too many")),
    Step("partial success that counts more than there are", partly(1 << 40, b"all")),
    Step("a warning", partly(0, b"be careful")),
    Step("OK without a message", grpc_headers("stored", ("grpc-status", "0"))),
    Step("trailers missing, after a message", grpc_headers("refused", body=b"\0\0\0\0\0")),
    Step("trailers missing, nothing at all", grpc_headers("refused")),
    Step("a grpc-status that is no number", grpc_headers("refused", ("grpc-status", "fine"))),
    Step("a grpc-status of 99", grpc_headers("refused", ("grpc-status", "99"))),
    Step("HTML of a proxy, 502", grpc_headers("later", body=HTML, status="502", content_type="text/html")),
    Step("HTML of a proxy, 503", grpc_headers("later", body=HTML, status="503", content_type="text/html")),
    Step("HTML of a proxy, 429", grpc_headers("later", body=HTML, status="429", content_type="text/html")),
    Step("HTML of a proxy, 200", grpc_headers("refused", body=HTML, content_type="text/html")),
    Step("HTML of a proxy, 403", grpc_headers("refused", body=HTML, status="403", content_type="text/html")),
    Step("wrong content type", grpc_headers("refused", ("grpc-status", "0"), content_type="application/json")),
    Step("no content type", grpc_headers("refused", ("grpc-status", "0"), content_type="")),
    Step("UNAVAILABLE before the message was read", early(14), "kept"),
    Step("RetryInfo before the message was read", early(8, retry_info(8, 1.0)), "kept", 1.0),
]

STREAMS = [
    Step("GOAWAY mid-stream, not processed", goaway_unprocessed, "kept"),
    Step("GOAWAY mid-stream, graceful", goaway_graceful, "kept"),
    Step("GOAWAY, then no answer", goaway_silent),
    Step("RST_STREAM REFUSED_STREAM", reset(http2.REFUSED_STREAM, "later")),
    Step("RST_STREAM CANCEL", reset(http2.CANCEL, "unknown")),
    Step("RST_STREAM INTERNAL_ERROR", reset(http2.INTERNAL_ERROR, "refused")),
    Step("RST_STREAM ENHANCE_YOUR_CALM", reset(http2.ENHANCE_YOUR_CALM, "refused")),
    Step("RST_STREAM NO_ERROR behind an answer",
         lambda call: (call.ok(), call.peer.rst(call.stream, http2.NO_ERROR))),
    Step("500 PING and 100 SETTINGS", then_ok(chatter)),
    Step("frames of an unknown type", then_ok(lambda call: call.peer.write(http2.frame(0xEE, 255, call.stream, NOISE)))),
    Step("103 before the answer", then_ok(lambda call: call.peer.headers(call.stream, [(":status", "103")]))),
    Step("slow: an answer byte by byte", slowly(0.5, whole_answer)),
    Step("an answer of 5 MiB", large_answer),
]

CUTS_KEPT = [Step(f"cut at {k} tenths, kept connection", cut_at(k), "kept") for k in range(11)]
CUTS_FIRST = [Step(f"cut at {k} tenths, new connection", cut_at(k)) for k in range(11)]

STALLS = [
    Step("stalled reads: nothing is read", lambda call: call.hold_unread(), "connection"),
    Step("stalled reads: no window", stall_window, "kept"),
    Step("no stream is allowed", no_streams, "connection"),
    Step("stalled writes: no answer", silence),
    Step("stalled writes: headers only", stall_after_headers),
    Step("stalled writes: half a frame", stall_in_data),
    Step("stalled writes: no trailers", stall_before_trailers),
    Step("trailers cut off", cut_before_trailers),
    Step("slow: an answer after the deadline", late),
    Step("connection closed at once", lambda call: call.cut(), "connection"),
]

GARBAGE = [
    Step("garbage instead of SETTINGS", raw(NOISE, read=False), "connection"),
    Step("HTTP/1.1 instead of HTTP/2", raw(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", read=False),
         "connection"),
    Step("a TLS alert", raw(bytes.fromhex("15030100020246"), hold=False, read=False), "connection"),
    Step("SETTINGS of a wrong length", raw(http2.frame(http2.SETTINGS, 0, 0, b"abcde"), read=False), "connection"),
    Step("garbage instead of an answer", raw(NOISE)),
    Step("a frame that is too long", raw(b"\xff\xff\xff\x01\x04\0\0\0\1")),
    Step("broken HPACK", raw(lambda call: http2.frame(http2.HEADERS, 4, call.stream, b"\xff\xff\xff\xff\xff\xff"))),
    Step("an answer on another stream", wrong_stream),
    Step("DATA before HEADERS", raw(lambda call: http2.frame(http2.DATA, 1, call.stream, b"abc"))),
    Step("100 KiB of headers",
         raw(lambda call: http2.frame(http2.HEADERS, 0, call.stream, http2.block([(":status", "200")])) +
             b"".join(http2.frame(http2.CONTINUATION, 0, call.stream, http2.block([("x", "y" * 1000)])) for _ in range(100)))),
    Step("an answer beyond the window", beyond_window),
]

HTTP_ANSWERS = [
    *(Step(f"HTTP {x}", http_status(x, "later")) for x in ("429 Slow Down", "502 Bad Gateway", "503 Away", "504 Late")),
    Step("Retry-After in seconds", http_status("429 Slow Down", "later", "retry-after: 2"), delay=2),
    Step("Retry-After as a date", http_date, delay=1.9),
    Step("RetryInfo in a Status",
         http_status("503 Away", "later", body=status_message(14, "later", 1.5)), delay=1.5),
    Step("HTTP HTML of a proxy, 502", http_status("502 Bad Gateway", "later", body=HTML, content_type="text/html")),
    Step("HTTP HTML of a proxy, 200", http_status("200 OK", "refused", body=HTML, content_type="text/html")),
    *(Step(f"HTTP {x}", http_status(x, "refused"))
      for x in ("400 Bad", "401 Who", "403 No", "404 Where", "405 How")),
    Step("HTTP 415, of the coding perhaps", http_status("415 What", "later")),  # it comes again without one, at once
    *(Step(f"HTTP {x}", http_status(x, "refused")) for x in ("500 Broken", "501 Never")),
    Step("HTTP 301", http_status("301 Moved", "refused", "location: /elsewhere")),
    Step("HTTP 204", http_status("204 No Content", "stored")),
    Step("HTTP partial success", http_partly(1, b"one is too many")),
    Step("HTTP warning", http_partly(0, b"be careful")),
    Step("HTTP 100 before the answer",
         then_ok(lambda call: call.peer.write(b"HTTP/1.1 100 Continue\r\n\r\n"))),
    Step("HTTP answer in chunks, slow", slowly(0.5, http_bytes)),
]

HTTP_CUTS = [
    *(Step(f"HTTP cut at {k} tenths, new connection", cut_at(k)) for k in range(11)),
    *(Step(f"HTTP cut at {k} tenths, kept connection", cut_at(k), "kept") for k in range(11)),
    Step("HTTP connection ends behind an answer", http_closes),  # the next request may meet the end: it is in doubt
]

HTTP_STALLS = [
    Step("HTTP stalled reads", lambda call: call.hold_unread(), "connection"),
    Step("HTTP stalled writes: no answer", silence),
    Step("HTTP stalled writes: half an answer", raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc")),
    Step("HTTP answer cut short", raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc", hold=False)),
    Step("HTTP answer after the deadline", late),
    Step("HTTP garbage", raw(NOISE, hold=False)),
    Step("HTTP/2 instead of HTTP/1.1", raw(http2.frame(http2.SETTINGS, 0, 0), hold=False)),
    Step("HTTP header without end", raw(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 400000)),
    Step("HTTP connection closed at once", lambda call: call.cut(), "connection"),
]


def forever():
    """(name, step, whether the samples stay with the agent, http)."""
    for code in range(1, 17):
        yield f"code {CODES[code]} forever", grpc_code(code), code in RETRYABLE, False
    yield "RetryInfo forever", grpc_code(8, retry_info(8, 0.5), fate="later"), True, False
    yield "HTML of a proxy forever", grpc_headers("later", body=HTML, status="502", content_type="text/html"), True, False
    yield "stalled reads forever", stall_window, True, False
    yield "no answer forever", lambda call: (call.read(), call.fate("later"), call.hold()), True, False
    yield "HTTP 503 forever", http_status("503 Away", "later"), True, True
    yield "HTTP 500 forever", http_status("500 Broken", "refused"), False, True
