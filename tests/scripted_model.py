"""A checkpoint that answers with given texts: a Llama whose layers add nothing, and whose output matrix says for each token
which one follows. A prompt that ends with a text's key (one ASCII character) is answered with that text, cut into tokens of a
few bytes, wherever in a character or a marker that may be."""
import json
import struct

HEAD = 64
HEADS = 8
HIDDEN = HEAD * HEADS  # at least the size of the vocabulary: each token has a dimension of its own


def byte_letters():
    """The letter that byte-level tokenizers write for each byte (GPT-2's table)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}


def pieces(text, control, used):
    """`text` as tokens: control tokens, and between them new ones of two bytes or more."""
    left, cut = text.encode(), []
    while left:
        marker = next((mark for mark in control if left.startswith(mark.encode())), None)
        if marker is not None:
            assert marker not in cut, "a control token is followed by one text"
            cut.append(marker)
            left = left[len(marker.encode()):]
            continue
        end = min((at for at in (left.find(mark.encode()) for mark in control) if at > 0), default=len(left))
        size = next(n for n in range(min(2, end), end + 1) if left[:n] not in used and (end - n != 1))
        used.add(left[:size])
        cut.append(left[:size])
        left = left[size:]
    return cut


def write_scripted_model(folder, chat_template, answers, control=()):
    """`answers`: {key: text}; `control`: texts that are control tokens of the tokenizer."""
    letters = byte_letters()
    ids = {bytes([byte]): byte for byte in range(256)}
    ids["</s>"] = 256
    for mark in control:
        ids[mark] = len(ids)
    follows, used = {}, {bytes([byte]) for byte in range(256)}
    for key, text in answers.items():
        last = ids[key.encode()]
        for piece in pieces(text, control, used):
            follows[last] = last = ids.setdefault(piece, len(ids))
        follows[last] = ids["</s>"]
    assert len(ids) <= HIDDEN, "the texts are too long for this model"

    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": HEAD,
              "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": HEAD,
              "vocab_size": HIDDEN, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
              "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 256, "eos_token_id": 256,
              "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": chat_template, "eos_token": "</s>"}))
    added = [{"id": ids[text], "content": text, "special": True, "normalized": False, "lstrip": False, "rstrip": False,
              "single_word": False} for text in ("</s>", *control)]
    vocabulary = {"".join(letters[byte] for byte in piece): id for piece, id in ids.items() if isinstance(piece, bytes)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
        "decoder": byte_level, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}))
    write_weights(folder / "model.safetensors", follows)


def write_weights(path, follows):
    def zeros(rows, columns):
        return (rows, columns), bytes(4 * rows * columns)

    ones = (HIDDEN,), struct.pack(f"<{HIDDEN}f", *[1.0] * HIDDEN)
    embedding, output = bytearray(4 * HIDDEN * HIDDEN), bytearray(4 * HIDDEN * HIDDEN)
    for token in range(HIDDEN):
        struct.pack_into("<f", embedding, 4 * (token * HIDDEN + token), 1.0)
        struct.pack_into("<f", output, 4 * (follows.get(token, 256) * HIDDEN + token), 8.0)
    layer = "model.layers.0."
    tensors = {"model.embed_tokens.weight": ((HIDDEN, HIDDEN), embedding), "lm_head.weight": ((HIDDEN, HIDDEN), output),
               "model.norm.weight": ones, layer + "input_layernorm.weight": ones,
               layer + "post_attention_layernorm.weight": ones}
    for name in "qkvo":
        tensors[f"{layer}self_attn.{name}_proj.weight"] = zeros(HIDDEN, HIDDEN)
    for name in ("gate", "up"):
        tensors[f"{layer}mlp.{name}_proj.weight"] = zeros(HEAD, HIDDEN)
    tensors[layer + "mlp.down_proj.weight"] = zeros(HIDDEN, HEAD)
    header, offset = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values()))
