"""A conversation with the official openai client: pip install openai

    erne serve
    python openai_chat.py 写一首关于春天的七言绝句
"""
import os
import sys

from openai import OpenAI

client = OpenAI(base_url=os.environ.get("ERNE_URL", "http://127.0.0.1:8000") + "/v1",
                api_key=os.environ.get("ERNE_API_KEY", "none"))
messages = [{"role": "user", "content": " ".join(sys.argv[1:]) or "你好，你是谁？"}]
model = client.models.list().data[0].id
for chunk in client.chat.completions.create(model=model, messages=messages, temperature=0.3, stream=True):
    print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
