"""Visits a Chainlit server as its page does: connects, says one thing, prints what comes back as JSON. Runs in the
Python that has Chainlit, not in that of the tests: chainlit_visitor.py URL TEXT"""
import asyncio
import datetime
import json
import sys
import uuid

import socketio

TIMEOUT_S = 60


async def visit(url, text):
    client = socketio.AsyncClient()
    answered = asyncio.get_running_loop().create_future()

    @client.on("new_message")
    async def on_new_message(step):
        if step["type"] == "assistant_message" and not answered.done():
            answered.set_result({"output": step["output"], "isError": step.get("isError", False)})

    auth = {"sessionId": str(uuid.uuid4()), "clientType": "webapp", "userEnv": "{}", "chatProfile": "", "threadId": ""}
    await client.connect(url, auth=auth, socketio_path="/ws/socket.io", transports=["websocket"], wait_timeout=TIMEOUT_S)
    await client.emit("connection_successful")
    message = {"id": str(uuid.uuid4()), "threadId": "", "name": "user", "type": "user_message", "output": text,
               "createdAt": datetime.datetime.now(datetime.timezone.utc).isoformat()}
    await client.emit("client_message", {"message": message, "fileReferences": []})
    answer = await asyncio.wait_for(answered, TIMEOUT_S)
    await client.disconnect()
    return answer


print(json.dumps(asyncio.run(visit(*sys.argv[1:]))))
