"""Makes minilm_reference.json: vectors of all-MiniLM-L6-v2, computed independently of llama.cpp.

Usage: python3 reference.py MODEL > minilm_reference.json

MODEL is a folder with model.safetensors and tokenizer.json of sentence-transformers/all-MiniLM-L6-v2. Needs the
packages numpy and tokenizers. BERT is written out in 64-bit floats; mean over all tokens, unit length.
"""

import json
import math
import struct
import sys

import numpy
import tokenizers

TEXTS = [
    "How do I get my money back?",
    "The quick brown fox jumps over the lazy dog.",
    "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG!",
    "ok",
    "a",
    "I would like a refund for order #A-10293, which arrived broken on 2024-03-14.",
    'Traceback (most recent call last):\n  File "/srv/app/main.py", line 42, in <module>\n'
    "    raise ValueError('bad token: %r' % tok)\nValueError: bad token: '<eof>'",
    "def parse(self, text: str) -> list[Node]:\n    return [self.node(t) for t in tokenize(text) if t.kind != 'comment']",
    "$ pytest -q tests/test_parser.py::test_unary_minus\n1 failed, 27 passed in 0.31s",
    "src/cli/run.rs:117: error[E0308]: mismatched types: expected `u32`, found `usize`",
    "Ünïcödé çà et là: naïve façade, Ångström, El Niño, São Paulo, Łódź",
    "今日は天気がいいですね。東京タワーへ行きましょう。",
    "Привет, мир! Как дела сегодня?",
    "emoji 🎉🚀 and symbols ± × ÷ € £ ™ → ∑",
    "ΑΒΓ Ελληνικά κείμενο με τόνους",
    '{"user_id": "mia_li_3668", "payment_id": "credit_card_4421486", "total": 1094.0}',
    "The customer is a gold member; the reservation EHGLP3 was made on May 15 and may be cancelled within 24 hours.",
    "   leading, trailing   and   inner   whitespace\t\twith tabs\nand lines   ",
    "supercalifragilisticexpialidocious antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "0x7ffe3c2a 192.168.0.1 v2.13.7-rc1+build.5 3.14159e-10 50% $1,094.00",
    "don't can't won't it's -- 'quoted' \"double\" (paren) [bracket] {brace} a/b\\c a_b a-b a.b",
    "The committee met again in the afternoon to go through the list of open questions. " * 6,
    " ".join(
        f"Step {i}: the agent opened file_{i}.py, read lines {10 * i} to {10 * i + 9}, and noted that the function "
        f"compute_{i} was never called."
        for i in range(1, 13)
    ),
]
LAYERS, HEADS = 6, 12


def weights(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            floats = numpy.frombuffer(data[begin:end], dtype="<f4")
            tensors[name] = floats.reshape(entry["shape"]).astype(numpy.float64)
    return tensors


class Bert:
    def __init__(self, folder):
        self.w = weights(f"{folder}/model.safetensors")
        self.tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def linear(self, x, name):
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def embed(self, text):
        """Number of tokens and unit vector."""
        ids = self.tokenizer.encode(text).ids
        n, erf = len(ids), numpy.vectorize(math.erf)
        words, places, types = (
            self.w[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")
        )
        x = self.norm(words[ids] + places[:n] + types[0], "embeddings.LayerNorm")
        for i in range(LAYERS):
            layer = f"encoder.layer.{i}"
            q, k, v = (
                self.linear(x, f"{layer}.attention.self.{part}").reshape(n, HEADS, -1).transpose(1, 0, 2)
                for part in ("query", "key", "value")
            )
            share = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
            share = numpy.exp(share - share.max(-1, keepdims=True))
            share /= share.sum(-1, keepdims=True)
            seen = (share @ v).transpose(1, 0, 2).reshape(n, -1)
            x = self.norm(x + self.linear(seen, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
            inner = self.linear(x, f"{layer}.intermediate.dense")
            inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
            x = self.norm(x + self.linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        mean = x.mean(0)
        return n, mean / numpy.linalg.norm(mean)


def main(folder):
    bert = Bert(folder)
    rows = []
    for text in TEXTS:
        tokens, vector = bert.embed(text)
        row = {"text": text, "tokens": tokens, "vector": [round(float(x), 6) for x in vector]}
        rows.append(json.dumps(row, ensure_ascii=False))
    print("[\n" + ",\n".join(rows) + "\n]")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
