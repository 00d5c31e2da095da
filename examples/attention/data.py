"""Inputs of the clients beside this file and what attention makes of them: q.f16, k.f16, v.f16 and out.f64, packed [batch, heads, rows, head dim].

    python examples/attention/data.py FOLDER
"""
import math
import os
import random
import struct
import sys

BATCH, HEADS, SHARED, QUERIES, KEYS, DIM = 2, 4, 2, 64, 128, 64
random.seed(24)


def halves(heads, rows):
    """Normal numbers that f16 holds, as bytes and as [batch * heads][row][column]."""
    count = BATCH * heads * rows * DIM
    data = struct.pack("<%de" % count, *(random.gauss(0, 1) for _ in range(count)))
    flat = struct.unpack("<%de" % count, data)
    return data, [[flat[DIM * (head * rows + row) :][:DIM] for row in range(rows)] for head in range(BATCH * heads)]


def attend(query, keys, values):
    """One row of softmax(q . K^T / sqrt(DIM)) . V."""
    scores = [sum(map(float.__mul__, query, key)) / DIM**0.5 for key in keys]
    weights = [math.exp(score - max(scores)) for score in scores]
    return [sum(map(float.__mul__, weights, column)) / sum(weights) for column in zip(*values)]


(q, queries), (k, keys), (v, values) = halves(HEADS, QUERIES), halves(SHARED, KEYS), halves(SHARED, KEYS)
out = []
for head, rows in enumerate(queries):
    shared = head * SHARED // HEADS
    for i, row in enumerate(rows):
        seen = i + 1 + KEYS - QUERIES  # the last query sees the last key
        out += attend(row, keys[shared][:seen], values[shared][:seen])
os.makedirs(sys.argv[1], exist_ok=True)
for name, data in (("q.f16", q), ("k.f16", k), ("v.f16", v), ("out.f64", struct.pack("<%dd" % len(out), *out))):
    with open(os.path.join(sys.argv[1], name), "wb") as file:
        file.write(data)
