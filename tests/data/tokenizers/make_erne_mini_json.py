"""Writes erne-mini-json: erne-mini's tokenizer.model as the tokenizer.json that transformers makes of it.

Many ERNIE folders hold a tokenizer.json and no tokenizer.model. Made with transformers 4.57.6 and tokenizers 0.22.2:
    pip install "transformers<5" sentencepiece protobuf
    python make_erne_mini_json.py ../../../models/erne-mini erne-mini-json
"""

import json
import pathlib
import sys
import tempfile

from transformers import LlamaTokenizerFast


def main() -> None:
    source, target = map(pathlib.Path, sys.argv[1:3])
    target.mkdir(exist_ok=True)
    tokenizer = LlamaTokenizerFast.from_pretrained(source, legacy=False, add_prefix_space=False, from_slow=True)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            content = json.loads((pathlib.Path(folder) / name).read_text(encoding="utf-8"))
            compact = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
            (target / name).write_text(compact + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
