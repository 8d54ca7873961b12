"""The two doors of the API, asked through the official client."""
import inspect
from types import SimpleNamespace

PROMPT = "写一首关于春天的七言绝句"
EXACT = {"temperature": 0, "repetition_penalty": 1}  # generation_config.json asks for a penalty of 1.05


class Door:
    """POST /v1/chat/completions or /v1/completions. Fields that the client does not know go into its extra_body."""

    def __init__(self, client, endpoint):
        self.client, self.endpoint = client, endpoint
        self.create = (client.chat.completions if self.is_chat else client.completions).create
        self.known = set(inspect.signature(self.create).parameters)

    @property
    def is_chat(self):
        return self.endpoint == "chat"

    def send(self, prompt=PROMPT, **fields):
        if self.is_chat:
            asked = {"messages": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt}
        else:
            asked = {"prompt": prompt}
        asked |= {"model": "erne-mini", "max_tokens": 16} | fields
        extra = {name: asked.pop(name) for name in list(asked) if name not in self.known}
        return self.create(**asked, extra_body=extra)

    def ask(self, prompt=PROMPT, **fields):
        """A whole answer as the client has it, and of its first choice the text and the tokens' names."""
        answer = self.send(prompt, **fields)
        return SimpleNamespace(answer=answer, choice=answer.choices[0], text=text_of(answer.choices[0]),
                               tokens=tokens_of(answer.choices[0]), count=answer.usage.completion_tokens)

    def logprobs(self, most=0):
        return {"logprobs": True, "top_logprobs": most} if self.is_chat else {"logprobs": most}

    def stream(self, prompt=PROMPT, **fields):
        return list(self.send(prompt, stream=True, **fields))


def text_of(choice):
    return choice.message.content if hasattr(choice, "message") else choice.text


def delta_of(choice):
    return (choice.delta.content or "") if hasattr(choice, "delta") else choice.text


def joined(chunks, index=0):
    return "".join(delta_of(choice) for chunk in chunks for choice in chunk.choices if choice.index == index)


def tokens_of(choice):
    if choice.logprobs is None:
        return None
    return choice.logprobs.tokens if hasattr(choice.logprobs, "tokens") else [each.token for each in choice.logprobs.content]
