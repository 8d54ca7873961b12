"""What schemas allow over erne-mini's vocabulary, against jsonschema: nothing invalid, and all that is valid."""
import json
import random
import subprocess

import jsonschema

from erne_server import BINARY, MINI
from schemas import schema, spelled, tree

WALK = BINARY.parent / "erne_grammar_walk"
PAIRS = 300


def cases():
    for seed in range(PAIRS):
        rng = random.Random(seed)
        described, make = tree(rng) if seed % 10 == 0 else schema(rng, rng.randrange(4))
        instances = [make() for _ in range(4)]
        yield seed, described, instances, [spelled(rng, value) for value in instances]


def invalid(described, text):
    validator = jsonschema.Draft202012Validator(described, format_checker=jsonschema.FormatChecker())
    return [error.message for error in validator.iter_errors(json.loads(text))]


def test_masks_allow_what_validates_and_nothing_else():
    tasks = list(cases())
    lines = [json.dumps({"schema": described, "accepts": texts, "walks": 3, "budget": seed % 60, "seed": seed})
             for seed, described, _, texts in tasks]
    done = subprocess.run([str(WALK), str(MINI)], input="\n".join(lines) + "\n", capture_output=True, text=True,
                          timeout=500)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == PAIRS
    for (seed, described, instances, texts), answer in zip(tasks, answers):
        shown = f"schema {seed}: {json.dumps(described, ensure_ascii=False)}"
        assert "error" not in answer, f"{shown}: {answer}"
        for text in answer["walks"]:
            assert not invalid(described, text), f"{shown}: {text}: {invalid(described, text)}"
        for value, text, accepted in zip(instances, texts, answer["accepts"]):
            jsonschema.validate(value, described)  # the generator's own promise
            assert accepted, f"{shown} does not take {text}"
