# SPDX-License-Identifier: Apache-2.0
"""Reads a screenshot (8 bits a channel, RGB or RGBA, not interlaced) far enough to say that something was drawn."""
import collections
import struct
import zlib


def _unfilter(kind, line, above, step):
    """One scanline's filter taken off in place, PNG specification 9.2."""
    for i in range(len(line)):
        left = line[i - step] if i >= step else 0
        up = above[i]
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) // 2
        else:
            corner = above[i - step] if i >= step else 0
            p = left + up - corner
            guess = min((abs(p - left), 0, left), (abs(p - up), 1, up), (abs(p - corner), 2, corner))[2]
        line[i] = (line[i] + guess) & 255


def colours(path):
    """How often each colour occurs, most common first."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError(f"{path}: not a PNG file")
    at, pixels = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        chunk = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlace = struct.unpack(">IIBBBBB", chunk)
            if depth != 8 or colour not in (2, 6) or interlace:
                raise ValueError(f"{path}: a form of PNG that is not read here")
            step = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            pixels += chunk
        at += 12 + length
    raw, stride = zlib.decompress(pixels), width * step
    count, above = collections.Counter(), bytearray(stride)
    for y in range(height):
        start = y * (stride + 1)
        line = bytearray(raw[start + 1:start + 1 + stride])
        if raw[start]:
            _unfilter(raw[start], line, above, step)
        count.update(bytes(line[x:x + 3]) for x in range(0, stride, step))
        above = line
    return count.most_common()
