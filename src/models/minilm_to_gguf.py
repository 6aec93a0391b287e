"""Converts all-MiniLM-L6-v2 from safetensors to a GGUF of 16-bit floats, as llama.cpp reads BERT.

Usage: python3 minilm_to_gguf.py model.safetensors tokenizer.json out.gguf

Standard library only, so that the bytes depend on the two inputs alone: they are pinned by hash like any other
model. The graph and the names are those of llama.cpp's own converter: matrices as f16, vectors, positions and
token types as f32; WordPiece with the sign of a beginning word, U+2581, in place of that of a continued one.
"""

import array
import json
import struct
import sys

ALIGNMENT = 32
UINT32, FLOAT32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9  # types of values
INT32 = 5
F32, F16 = 0, 1  # types of tensors
NORMAL, CONTROL = 1, 3  # types of tokens
LAYERS = 6

# Our name <- theirs, without `.weight` and `.bias`.
OUTER = {
    "token_embd": "embeddings.word_embeddings",
    "position_embd": "embeddings.position_embeddings",
    "token_types": "embeddings.token_type_embeddings",
    "token_embd_norm": "embeddings.LayerNorm",
}
INNER = {
    "attn_q": "attention.self.query",
    "attn_k": "attention.self.key",
    "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense",
    "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense",
    "layer_output_norm": "output.LayerNorm",
}
STAYS_F32 = {"position_embd.weight", "token_types.weight"}


def read_safetensors(path):
    """Name -> (shape, 32-bit floats). Positions of tokens are whole numbers and left out."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            floats = array.array("f", data[begin:end])
            if sys.byteorder == "big":
                floats.byteswap()
            tensors[name] = (entry["shape"], floats)
    return tensors


def renamed(tensors):
    """The tensors in the order and under the names of the GGUF: (name, shape, type, bytes)."""
    names = dict(OUTER)
    for i in range(LAYERS):
        names.update({f"blk.{i}.{ours}": f"encoder.layer.{i}.{theirs}" for ours, theirs in INNER.items()})
    for ours, theirs in names.items():
        for kind in ("weight", "bias"):
            if f"{theirs}.{kind}" not in tensors:
                continue
            shape, floats = tensors.pop(f"{theirs}.{kind}")
            name = f"{ours}.{kind}"
            wide = len(shape) == 1 or name in STAYS_F32
            code = "f" if wide else "e"
            yield name, shape, F32 if wide else F16, struct.pack(f"<{len(floats)}{code}", *floats)
    # The pooler is trained for another task, and mean pooling does without it.
    left = [name for name in tensors if not name.startswith("pooler.")]
    if left:
        sys.exit(f"tensors that the conversion does not know: {', '.join(left)}")


def vocabulary(path):
    """Tokens by id, as llama.cpp's WordPiece wants them, with their types and the ids of special ones."""
    with open(path, encoding="utf-8") as file:
        tokenizer = json.load(file)
    vocab = tokenizer["model"]["vocab"]
    special = {token["content"] for token in tokenizer["added_tokens"] if token["special"]}
    tokens = sorted(vocab, key=vocab.get)
    if [vocab[token] for token in tokens] != list(range(len(tokens))):
        sys.exit(f"{path}: the ids of the vocabulary have gaps")

    def phantom(token):
        if token in special:
            return token
        return token[2:] if token.startswith("##") else "\u2581" + token

    types = [CONTROL if token in special else NORMAL for token in tokens]
    return [phantom(token) for token in tokens], types, vocab


def string(text):
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def value(kind, content):
    """A value with its type."""
    plain = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}
    if kind in plain:
        return struct.pack("<I", kind) + struct.pack(plain[kind], content)
    if kind == STRING:
        return struct.pack("<I", kind) + string(content)
    inner, items = content
    packed = b"".join(string(i) if inner == STRING else struct.pack(plain[inner], i) for i in items)
    return struct.pack("<IIQ", ARRAY, inner, len(items)) + packed


def main(safetensors, tokenizer, out):
    tensors = read_safetensors(safetensors)
    positions, width = tensors["embeddings.position_embeddings.weight"][0]
    inner = tensors["encoder.layer.0.intermediate.dense.weight"][0][0]
    n_types = tensors["embeddings.token_type_embeddings.weight"][0][0]
    tokens, types, ids = vocabulary(tokenizer)
    fields = [
        ("general.architecture", STRING, "bert"),
        ("general.type", STRING, "model"),
        ("general.name", STRING, "all-MiniLM-L6-v2"),
        ("general.license", STRING, "apache-2.0"),
        ("general.file_type", UINT32, 1),
        ("general.quantization_version", UINT32, 2),
        ("bert.block_count", UINT32, LAYERS),
        ("bert.context_length", UINT32, positions),
        ("bert.embedding_length", UINT32, width),
        ("bert.feed_forward_length", UINT32, inner),
        ("bert.attention.head_count", UINT32, 12),
        ("bert.attention.layer_norm_epsilon", FLOAT32, 1e-12),
        ("bert.attention.causal", BOOL, False),
        ("bert.pooling_type", UINT32, 1),  # mean
        ("tokenizer.ggml.model", STRING, "bert"),
        ("tokenizer.ggml.pre", STRING, "default"),
        ("tokenizer.ggml.token_type_count", UINT32, n_types),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (INT32, types)),
        ("tokenizer.ggml.bos_token_id", UINT32, ids["[CLS]"]),
        ("tokenizer.ggml.eos_token_id", UINT32, ids["[SEP]"]),
        ("tokenizer.ggml.cls_token_id", UINT32, ids["[CLS]"]),
        ("tokenizer.ggml.seperator_token_id", UINT32, ids["[SEP]"]),  # spelled so in the format
        ("tokenizer.ggml.padding_token_id", UINT32, ids["[PAD]"]),
        ("tokenizer.ggml.unknown_token_id", UINT32, ids["[UNK]"]),
        ("tokenizer.ggml.mask_token_id", UINT32, ids["[MASK]"]),
        ("tokenizer.ggml.add_bos_token", BOOL, True),
        ("tokenizer.ggml.add_sep_token", BOOL, True),
    ]
    described, blobs, offset = [], [], 0
    for name, shape, kind, blob in renamed(tensors):
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        described.append(string(name) + dims + struct.pack("<IQ", kind, offset))
        blob += b"\0" * (-len(blob) % ALIGNMENT)
        blobs.append(blob)
        offset += len(blob)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(described), len(fields))
    head += b"".join(string(key) + value(kind, content) for key, kind, content in fields)
    head += b"".join(described)
    with open(out, "wb") as file:
        file.write(head + b"\0" * (-len(head) % ALIGNMENT))
        file.writelines(blobs)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
