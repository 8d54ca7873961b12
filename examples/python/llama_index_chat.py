"""LlamaIndex over erne: pip install llama-index-llms-openai-like

    erne serve
    python llama_index_chat.py 写一首关于春天的七言绝句
"""
import os
import sys

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

model = OpenAILike(api_base=os.environ.get("ERNE_URL", "http://127.0.0.1:8000") + "/v1",
                   api_key=os.environ.get("ERNE_API_KEY", "none"), model="erne-mini", is_chat_model=True,
                   context_window=2048, temperature=0.3, max_tokens=60)
for part in model.stream_chat([ChatMessage(role="user", content=" ".join(sys.argv[1:]) or "你好，你是谁？")]):
    print(part.delta or "", end="", flush=True)
print()
