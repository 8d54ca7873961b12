"""Makes a model folder of the shape that the tutorials have their readers download: configuration, a safetensors index
and two shards, tokenizer.json with tokenizer_config.json, a vocab.txt that nothing uses, and no tokenizer.model."""
import json
import shutil
import struct

from erne_server import MINI, SOURCE


def read_safetensors(path):
    """(header, offset of the data, bytes) of a safetensors file."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8:8 + length]), 8 + length, raw


def write_safetensors(path, names, header, data_begin, raw):
    """The tensors `names` of another file as a file of their own."""
    entries, chunks, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name in names:
        begin, end = header[name]["data_offsets"]
        entries[name] = {**header[name], "data_offsets": [offset, offset + end - begin]}
        chunks.append(raw[data_begin + begin:data_begin + end])
        offset += end - begin
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def make_tutorial_folder(folder):
    folder.mkdir(parents=True)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        shutil.copyfile(MINI / name, folder / name)
    shutil.copyfile(SOURCE / "tests/data/tokenizers/erne-mini-json/tokenizer.json", folder / "tokenizer.json")
    (folder / "vocab.txt").write_text("nobody reads this\n", encoding="utf-8")

    header, data_begin, raw = read_safetensors(MINI / "model.safetensors")
    names = sorted(name for name in header if name != "__metadata__")
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for shard, members in shards.items():
        write_safetensors(folder / shard, members, header, data_begin, raw)
    index = {"metadata": {"total_size": len(raw) - data_begin},
             "weight_map": {name: shard for shard, members in shards.items() for name in members}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder
