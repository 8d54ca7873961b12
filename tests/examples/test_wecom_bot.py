"""examples/wecom-bot: callback verification and encrypted messages, against a recorded vector and openssl, and the bot as it runs."""
import base64
import hashlib
import http.server
import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from erne_server import SOURCE, free_port

BOT = SOURCE / "examples/wecom-bot"
TOKEN = "QDG6eK"
AES_KEY = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
CORP = "wx5823bf96d3bd56c7"


@pytest.fixture(scope="module")
def crypt_module():
    sys.path.insert(0, str(BOT))
    import wecom_crypt
    yield wecom_crypt
    sys.path.remove(str(BOT))


@pytest.fixture
def crypt(crypt_module):
    return crypt_module.WeComCrypt(TOKEN, AES_KEY, CORP)


def openssl_encrypt(message, corp=CORP, random=b"0123456789abcdef", padding=None):
    """An encrypted message as WeCom makes it, without the code under test."""
    key = base64.b64decode(AES_KEY + "=")
    plain = random + len(message).to_bytes(4, "big") + message + corp.encode()
    fill = 32 - len(plain) % 32
    plain += padding if padding is not None else bytes([fill]) * fill
    done = subprocess.run(["openssl", "enc", "-aes-256-cbc", "-nopad", "-K", key.hex(), "-iv", key[:16].hex()], input=plain,
                          capture_output=True, check=True)
    return base64.b64encode(done.stdout).decode()


def sign(timestamp, nonce, encrypted):
    return hashlib.sha1("".join(sorted([TOKEN, timestamp, nonce, encrypted])).encode()).hexdigest()


# The address check of WeCom's published sample, with its key and token above.
RECORDED = {
    "timestamp": "1409659589", "nonce": "263014780", "message": b"1616140317555161061", "random": b"c41b64491c2468d0",
    "encrypted": "P9nAzCzyDtyTWESHep1vC5X9xho/qYX3Zpb4yKa9SKld1DsH3Iyt3tP3zNdtp+4RPcs8TgAE7OaBO+FZXvnaqQ==",
    "signature": "5c45ff5e21c57e6ad56bac8758b79b1d9ac89fd3",
}


def test_recorded_vectors(crypt):
    fields = [RECORDED[name] for name in ("signature", "timestamp", "nonce", "encrypted")]
    assert crypt.open(*fields) == RECORDED["message"]
    assert openssl_encrypt(RECORDED["message"], random=RECORDED["random"]) == RECORDED["encrypted"]


@pytest.mark.parametrize("message", [b"", b"x", "你好，企业微信 🦅".encode(), b"y" * 2000, b"z" * 23, b"z" * 24, b"z" * 25])
def test_messages_of_all_lengths(crypt, message):
    encrypted = openssl_encrypt(message)
    assert crypt.open(sign("1", "2", encrypted), "1", "2", encrypted) == message
    sealed = crypt.seal(message)
    assert crypt.open(sign("1", "2", sealed), "1", "2", sealed) == message
    key = base64.b64decode(AES_KEY + "=")
    plain = subprocess.run(["openssl", "enc", "-d", "-aes-256-cbc", "-nopad", "-K", key.hex(), "-iv", key[:16].hex()],
                           input=base64.b64decode(sealed), capture_output=True, check=True).stdout
    assert plain[16:20] == len(message).to_bytes(4, "big") and plain[20:].startswith(message + CORP.encode())
    assert len(plain) % 32 == 0 and plain.endswith(bytes([plain[-1]]) * plain[-1])
    assert sealed != crypt.seal(message), "random bytes come first"


@pytest.mark.parametrize("encrypted", [
    openssl_encrypt(b"x", corp="somebody-else"), openssl_encrypt(b"x", padding=b"\x00" * 9), openssl_encrypt(b"", random=b"", corp=""),
    openssl_encrypt(b"x")[:-8], "no base64!", ""])
def test_messages_that_are_not_for_us(crypt, crypt_module, encrypted):
    with pytest.raises(crypt_module.Refused):
        crypt.open(sign("1", "2", encrypted), "1", "2", encrypted)


def test_a_wrong_signature(crypt, crypt_module):
    encrypted = openssl_encrypt(b"x")
    for fields in (("0" * 40, "1", "2", encrypted), (sign("1", "2", encrypted), "1", "3", encrypted), ("", "1", "2", encrypted)):
        with pytest.raises(crypt_module.Refused):
            crypt.open(*fields)


class FakeWeCom(http.server.ThreadingHTTPServer):
    """WeCom's API as far as the bot uses it."""

    def __init__(self):
        self.sent, self.tokens = queue.Queue(), 0
        super().__init__(("127.0.0.1", 0), self.Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, body):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def do_GET(self):
            assert self.path == f"/cgi-bin/gettoken?corpid={CORP}&corpsecret=secret", self.path
            self.server.tokens += 1
            self.answer({"errcode": 0, "access_token": "token-1", "expires_in": 7200})

        def do_POST(self):
            assert self.path == "/cgi-bin/message/send?access_token=token-1", self.path
            self.server.sent.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer({"errcode": 0})

        def log_message(self, *arguments):
            pass


class BotProcess:
    def __init__(self, erne_url):
        self.wecom = FakeWeCom()
        self.port = free_port()
        environment = {**os.environ, "WECOM_CORP_ID": CORP, "WECOM_SECRET": "secret", "WECOM_AGENT_ID": "1000002",
                       "WECOM_TOKEN": TOKEN, "WECOM_AES_KEY": AES_KEY, "ERNE_URL": erne_url, "PORT": str(self.port),
                       "WECOM_API": f"http://127.0.0.1:{self.wecom.server_port}"}
        self.process = subprocess.Popen([sys.executable, BOT / "bot.py"], env=environment)

    def __enter__(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                assert time.monotonic() < deadline and self.process.poll() is None
                time.sleep(0.02)

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.wecom.shutdown()
        self.wecom.server_close()

    def call(self, encrypted, body=None, signature=None):
        query = {"msg_signature": signature or sign("5", "6", encrypted), "timestamp": "5", "nonce": "6"}
        if body is None:
            query["echostr"] = encrypted
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/?{urllib.parse.urlencode(query)}", body, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def say(self, text, message_id, kind="text", user="zhangsan", **wrong):
        message = (f"<xml><ToUserName><![CDATA[{CORP}]]></ToUserName><FromUserName><![CDATA[{user}]]></FromUserName>"
                   f"<CreateTime>1348831860</CreateTime><MsgType><![CDATA[{kind}]]></MsgType><Content><![CDATA[{text}]]></Content>"
                   f"<MsgId>{message_id}</MsgId><AgentID>1000002</AgentID></xml>")
        encrypted = openssl_encrypt(message.encode())
        envelope = f"<xml><ToUserName><![CDATA[{CORP}]]></ToUserName><Encrypt><![CDATA[{encrypted}]]></Encrypt></xml>"
        return self.call(encrypted, envelope.encode(), **wrong)


@pytest.fixture(scope="module")
def bot(mini):
    with BotProcess(mini.url) as bot:
        yield bot


def test_wecom_finds_the_address_ours(bot):
    assert bot.call(openssl_encrypt(b"4711")) == (200, b"4711")
    assert bot.call(openssl_encrypt(b"4711"), signature="0" * 40)[0] == 403


def test_a_question_is_answered_once(bot):
    assert bot.say("你好，你是谁？", 1) == (200, b"")
    sent = bot.wecom.sent.get(timeout=60)
    assert sent["touser"] == "zhangsan" and sent["msgtype"] == "text" and sent["agentid"] == 1000002
    assert re.search("[\u4e00-\u9fff]", sent["text"]["content"]) and "请求失败" not in sent["text"]["content"]
    assert bot.say("你好，你是谁？", 1) == (200, b""), "WeCom repeats what was not answered in time"
    assert bot.say("", 2, kind="image") == (200, b"")
    assert bot.say("写一首诗", 3, user="lisi") == (200, b"")
    assert bot.wecom.sent.get(timeout=60)["touser"] == "lisi"
    assert bot.wecom.sent.empty() and bot.wecom.tokens == 1


def test_forged_and_broken_messages(bot):
    assert bot.say("hi", 9, signature="0" * 40)[0] == 403
    assert bot.call("x", b"<xml>")[0] == 400
    assert bot.call("x", b"<xml></xml>")[0] == 403
    assert bot.wecom.sent.empty()


def test_it_says_when_erne_is_away():
    with BotProcess(f"http://127.0.0.1:{free_port()}") as bot:
        assert bot.say("你好", 1) == (200, b"")
        assert bot.wecom.sent.get(timeout=60)["text"]["content"].startswith("请求失败")
