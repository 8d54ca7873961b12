"""A WeCom (企业微信) app that answers with erne: pip install cryptography. README.md says how to set it up.

WeCom wants an answer within five seconds and repeats its message otherwise. So the callback is answered at once with nothing, and
what erne says is sent through WeCom's API when it is complete.
"""
import collections
import json
import os
import sys
import threading
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from wecom_crypt import Refused, WeComCrypt

MAX_BODY = 64 * 1024  # a text message has 2 KB
MAX_TEXT = 2048  # bytes of a text that WeCom takes
TURNS = 6  # messages of each user that the model sees again
REMEMBERED = 1000  # messages that are known when they are repeated
TIMEOUT_S = 120


class Erne:
    """Conversations with the users, one after the other for each."""

    def __init__(self, url, api_key=None, model=None):
        self._url, self._api_key, self._model = url, api_key, model
        self._turns = collections.defaultdict(lambda: collections.deque(maxlen=TURNS))

    def answer(self, user, question):
        turns = self._turns[user]
        turns.append({"role": "user", "content": question})
        body = {"messages": list(turns), "temperature": 0.3, "max_tokens": 512}
        if self._model:
            body["model"] = self._model
        headers = {"Content-Type": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        request = urllib.request.Request(f"{self._url}/v1/chat/completions", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                text = json.load(response)["choices"][0]["message"]["content"]
        except OSError as error:
            turns.pop()  # a question without an answer
            return f"请求失败：{error}，请稍后重试"
        turns.append({"role": "assistant", "content": text})
        return text


class WeComApi:
    """Sends messages as the app. The access token is fetched anew shortly before it ends."""

    def __init__(self, url, corp_id, secret, agent_id):
        self._url, self._corp_id, self._secret, self._agent_id = url, corp_id, secret, agent_id
        self._lock = threading.Lock()
        self._token, self._ends = "", 0.0

    def _call(self, path, query, body=None):
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        url = f"{self._url}/cgi-bin/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as response:
            answer = json.load(response)
        if answer.get("errcode"):
            raise OSError(f"WeCom: {answer['errcode']} {answer.get('errmsg')}")
        return answer

    def token(self):
        with self._lock:
            if time.monotonic() > self._ends:
                answer = self._call("gettoken", {"corpid": self._corp_id, "corpsecret": self._secret})
                self._token, self._ends = answer["access_token"], time.monotonic() + answer["expires_in"] - 60
            return self._token

    def send(self, user, text):
        cut = text.encode()[:MAX_TEXT].decode(errors="ignore")
        self._call("message/send", {"access_token": self.token()},
                   {"touser": user, "msgtype": "text", "agentid": self._agent_id, "text": {"content": cut}})


class Bot:
    def __init__(self, crypt, erne, api):
        self.crypt, self._erne, self._api = crypt, erne, api
        self._lock = threading.Lock()
        self._seen = collections.OrderedDict()
        self._users = collections.defaultdict(threading.Lock)

    def take(self, message):
        """A message of WeCom, decrypted: XML."""
        fields = {child.tag: child.text or "" for child in ElementTree.fromstring(message)}
        if fields.get("MsgType") != "text" or not self._is_new(fields.get("MsgId", "")):
            return
        threading.Thread(target=self._answer, args=(fields["FromUserName"], fields["Content"])).start()

    def _is_new(self, message_id):
        with self._lock:
            if message_id in self._seen:
                return False
            self._seen[message_id] = True
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
            return True

    def _answer(self, user, question):
        with self._users[user]:
            try:
                self._api.send(user, self._erne.answer(user, question))
            except OSError as error:
                print(f"nothing could be sent to {user}: {error}", file=sys.stderr)


def handler(bot):
    class Callback(BaseHTTPRequestHandler):
        def _reply(self, status, body=b""):
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _open(self, encrypted):
            query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
            return bot.crypt.open(query.get("msg_signature", ""), query.get("timestamp", ""), query.get("nonce", ""),
                                  query.get("echostr", "") if encrypted is None else encrypted)

        def do_GET(self):  # WeCom asks whether the address is ours
            try:
                self._reply(200, self._open(None))
            except Refused as error:
                self._reply(403, str(error).encode())

        def do_POST(self):
            length = int(self.headers.get("Content-Length") or 0)
            if not 0 < length <= MAX_BODY:
                return self._reply(413)
            try:
                envelope = ElementTree.fromstring(self.rfile.read(length))
                bot.take(self._open(envelope.findtext("Encrypt") or ""))
            except Refused as error:
                return self._reply(403, str(error).encode())
            except ElementTree.ParseError as error:
                return self._reply(400, str(error).encode())
            self._reply(200)

        def log_message(self, *arguments):  # queries hold signatures
            pass

    return Callback


def main():
    env = os.environ
    missing = [name for name in ("WECOM_CORP_ID", "WECOM_SECRET", "WECOM_AGENT_ID", "WECOM_TOKEN", "WECOM_AES_KEY")
               if not env.get(name)]
    if missing:
        sys.exit(f"these variables are not set: {', '.join(missing)}")
    crypt = WeComCrypt(env["WECOM_TOKEN"], env["WECOM_AES_KEY"], env["WECOM_CORP_ID"])
    api = WeComApi(env.get("WECOM_API", "https://qyapi.weixin.qq.com"), env["WECOM_CORP_ID"], env["WECOM_SECRET"],
                   int(env["WECOM_AGENT_ID"]))
    erne = Erne(env.get("ERNE_URL", "http://127.0.0.1:8000"), env.get("ERNE_API_KEY"), env.get("ERNE_MODEL"))
    server = ThreadingHTTPServer(("", int(env.get("PORT", "8080"))), handler(Bot(crypt, erne, api)))
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
