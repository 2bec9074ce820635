# SPDX-License-Identifier: Apache-2.0
"""Programs that use packages of PyPI as people do. PROGRAMS says how each is started; `python programs.py NAME` is most of them."""
import os
import sys

PACKAGES = ["flask", "gunicorn", "gevent", "pytest", "numpy", "lxml", "orjson", "pydantic", "uvloop", "py-spy"]
PORT = 18431
TESTS = '''import re, json, pytest
@pytest.mark.parametrize("n", range(400))
def test_text(n):
    text = json.dumps({str(i): list(range(n % 30)) for i in range(60)})
    assert json.loads(text) and len(re.findall(r"[0-9]+", text)) >= 60
'''


def flask_app():
    import flask
    app = flask.Flask(__name__)
    template = "<ul>{% for x in rows %}<li class='{{ loop.index }}'>{{ x.name|upper }} {{ x.value }}</li>{% endfor %}</ul>"

    @app.route("/<int:n>")
    def page(n):
        rows = [{"name": f"row {i}", "value": sum(j * j for j in range(i))} for i in range(n)]
        return flask.render_template_string(template, rows=rows)
    return app


def load():
    """Asks all the time, on two connections by turns."""
    import http.client
    import time
    while True:
        try:
            connections = [http.client.HTTPConnection("127.0.0.1", PORT, timeout=10) for _ in range(2)]
            while True:
                for c in connections:
                    c.request("GET", "/60")
                    c.getresponse().read()
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)


def numpy_work():
    import numpy
    a = numpy.random.rand(600, 600)

    def smooth(x):
        return numpy.convolve(x, numpy.ones(9) / 9, mode="same")

    def step(x):
        b = x @ x.T
        values = numpy.linalg.svd(b[:150, :150], compute_uv=False)
        return sum(float(smooth(row).max()) for row in b) + float(values[0])
    while True:
        step(a)


def extensions():
    import lxml.etree
    import orjson
    import pydantic

    class Row(pydantic.BaseModel):
        name: str
        values: list[int]

        @pydantic.field_validator("name")
        @classmethod
        def shorten(cls, text):
            return text.strip()[:20]

    def transform(_, nodes):
        return sum(len(n.text or "") for n in nodes)
    lxml.etree.FunctionNamespace(None)["transform"] = transform
    while True:
        document = lxml.etree.fromstring("<a>" + "".join(f"<b k='{i}'>text {i}</b>" for i in range(500)) + "</a>")
        document.xpath("transform(//b[@k > 100])")
        rows = [Row.model_validate({"name": f" {b.text} ", "values": list(range(20))}) for b in document]
        orjson.loads(orjson.dumps([r.model_dump() for r in rows], default=str))


def uvloop_server():
    import asyncio
    import json
    import uvloop

    async def answer(reader, writer):
        while line := await reader.readline():
            content = json.loads(line)
            writer.write(json.dumps({"n": sum(content), "all": content[::-1]}).encode() + b"\n")
            await writer.drain()

    async def ask(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            writer.write(json.dumps(list(range(200))).encode() + b"\n")
            json.loads(await reader.readline())

    async def serve():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(ask(port) for _ in range(4)))
    uvloop.run(serve())


def again(command):
    """Runs a command again and again, each a process."""
    import subprocess
    while True:
        subprocess.run(command, stdout=subprocess.DEVNULL)


def tests(folder):
    import pytest
    path = os.path.join(folder, "test_programs.py")
    with open(path, "w", encoding="utf-8") as f:
        f.write(TESTS)
    while True:
        pytest.main(["-q", "-p", "no:cacheprovider", path])


def processes():
    """Workers of multiprocessing, forked and spawned."""
    import multiprocessing
    kinds = [multiprocessing.get_context(kind).Pool(1) for kind in ("fork", "spawn")]
    while True:
        for result in [pool.map_async(squares, [20000] * 20) for pool in kinds]:
            result.get()


def squares(n):
    return sum(i * i for i in range(n))


def own(name):
    return lambda folder, cwd: [[f"{folder}/python", "programs.py", name]]


def gunicorn(kind, *options):
    return lambda folder, cwd: [[f"{folder}/python", "-m", "gunicorn", "-w", "2", "-k", kind, *options, "-b", f"127.0.0.1:{PORT}",
                                 "programs:flask_app()"], [f"{folder}/python", "programs.py", "load"]]


def pip(folder, cwd):
    return [[f"{folder}/python", "programs.py", "again", f"{folder}/python", "-m", "pip", "install", "-q", "--no-cache-dir", "--no-deps", "--upgrade",
             "--target", f"{cwd}/target", os.environ.get("PIP_PACKAGE", "networkx")]]


PROGRAMS = {"gunicorn_gthread": gunicorn("gthread", "--threads", "4"), "gunicorn_gevent": gunicorn("gevent"),
            "pytest": lambda folder, cwd: [[f"{folder}/python", "programs.py", "tests", cwd]], "pip": pip,
            "numpy": own("numpy_work"), "extensions": own("extensions"), "uvloop": own("uvloop_server"), "processes": own("processes")}

if __name__ == "__main__":
    if sys.argv[1] == "again":
        again(sys.argv[2:])
    globals()[sys.argv[1]](*sys.argv[2:])
