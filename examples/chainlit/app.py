"""A Chainlit page that puts each message to erne as a question of its own.

    erne serve DIR --served-model-name ernie-4.5-0.3b-pt-awq --ui-port 0
    chainlit run app.py -w --port 8001

README.md says more.
"""
import os

import chainlit as cl
import httpx

ERNE_URL = os.environ.get("ERNE_URL", "http://localhost:8000")
MODEL = "ernie-4.5-0.3b-pt-awq"
TIMEOUT_S = 30


async def answer_to(question: str) -> str:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0.7,
        "max_tokens": 512,
    }
    async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
        response = await client.post(f"{ERNE_URL}/v1/chat/completions", json=body)
    response.raise_for_status()
    return response.json()["choices"][0]["message"]["content"]


@cl.on_message
async def on_message(message: cl.Message):
    try:
        text = await answer_to(message.content)
    except httpx.HTTPError as error:
        text = f"请求失败：{str(error) or type(error).__name__}，请稍后重试"
    await cl.Message(content=text).send()
