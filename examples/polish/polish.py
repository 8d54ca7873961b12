"""Polishes the texts of a folder with erne run-batch: no server, no packages, and it goes on where it was.

    python polish.py --model /path/to/ERNIE-4.5-0.3B-PT manuals/ polished/

Each manuals/NAME.txt (or .md) becomes polished/NAME.txt. Run it again after an interruption, or with more manuals in the folder:
what is there already is not computed again.
"""
import argparse
import json
import pathlib
import subprocess
import sys

INSTRUCTION = "请润色下面的说明书：语句通顺、用词准确，不增加也不删减内容。只输出润色后的正文。\n\n"


def requests(folder, temperature):
    for path in sorted(folder.iterdir()):
        if path.suffix in (".txt", ".md"):
            messages = [{"role": "user", "content": INSTRUCTION + path.read_text(encoding="utf-8")}]
            yield {"custom_id": path.name, "method": "POST", "url": "/v1/chat/completions",
                   "body": {"messages": messages, "temperature": temperature, "seed": 1}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manuals", type=pathlib.Path)
    parser.add_argument("polished", type=pathlib.Path)
    parser.add_argument("--model", help="folder of the model; default: the embedded erne-mini")
    parser.add_argument("--temperature", type=float, default=0.3)
    parser.add_argument("--erne", default="erne", help="the program")
    options = parser.parse_args()

    options.polished.mkdir(parents=True, exist_ok=True)
    batch, answers = options.polished / "requests.jsonl", options.polished / "answers.jsonl"
    batch.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n"
                             for each in requests(options.manuals, options.temperature)), encoding="utf-8")
    command = [options.erne, "run-batch", "-i", batch, "-o", answers]
    if options.model:
        command += ["--model", options.model]
    code = subprocess.run(command).returncode
    if not answers.exists():
        return code
    for line in answers.read_text(encoding="utf-8").splitlines():
        answer = json.loads(line)
        if answer["error"]:
            print(f"{answer['custom_id']}: {answer['error']['message']}", file=sys.stderr)
            continue
        text = answer["response"]["body"]["choices"][0]["message"]["content"]
        (options.polished / answer["custom_id"]).write_text(text + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
