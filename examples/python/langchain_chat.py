"""A chain of LangChain over erne: pip install langchain-openai

    erne serve
    python langchain_chat.py 春天
"""
import os
import sys

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

model = ChatOpenAI(base_url=os.environ.get("ERNE_URL", "http://127.0.0.1:8000") + "/v1",
                   api_key=os.environ.get("ERNE_API_KEY", "none"), model="erne-mini", temperature=0.3, max_tokens=60)
chain = ChatPromptTemplate.from_template("写一首关于{subject}的七言绝句") | model | StrOutputParser()
for text in chain.stream({"subject": " ".join(sys.argv[1:]) or "春天"}):
    print(text, end="", flush=True)
print()
