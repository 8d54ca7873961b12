"""Messages between WeCom (企业微信) and a callback address: signed with SHA-1, encrypted with AES-256-CBC.

The plain text of an encrypted message is 16 random bytes, the length of the message (4 bytes, big-endian), the message, and the id
of whom it is for; PKCS#7 fills it up to a multiple of 32 bytes. The key's first 16 bytes are the initial vector.
"""
import base64
import hashlib
import hmac
import os
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

BLOCK = 32
RANDOM = 16


class Refused(Exception):
    """The message is not from WeCom, or not for us."""


class WeComCrypt:
    def __init__(self, token, encoding_aes_key, receive_id):
        self._token = token
        self._key = base64.b64decode(encoding_aes_key + "=")
        if len(self._key) != 32:
            raise ValueError("EncodingAESKey must have 43 characters")
        self._receive_id = receive_id.encode()

    def _cipher(self):
        return Cipher(algorithms.AES(self._key), modes.CBC(self._key[:16]))

    def signature(self, timestamp, nonce, encrypted):
        return hashlib.sha1("".join(sorted([self._token, timestamp, nonce, encrypted])).encode()).hexdigest()

    def open(self, signature, timestamp, nonce, encrypted):
        """The message, once signature and receiver are found right."""
        if not hmac.compare_digest(signature.encode(), self.signature(timestamp, nonce, encrypted).encode()):
            raise Refused("the signature is wrong")
        try:
            secret = base64.b64decode(encrypted, validate=True)
            decryptor = self._cipher().decryptor()
            plain = decryptor.update(secret) + decryptor.finalize()
        except ValueError as error:
            raise Refused(f"the message cannot be decrypted: {error}") from error
        padding = plain[-1] if plain else 0
        if not 1 <= padding <= BLOCK or plain[-padding:] != bytes([padding]) * padding or len(plain) - padding < RANDOM + 4:
            raise Refused("the message is not padded as it must be")
        content = plain[RANDOM:-padding]
        (length,) = struct.unpack(">I", content[:4])
        if content[4 + length:] != self._receive_id:
            raise Refused("the message is for somebody else")
        return content[4:4 + length]

    def seal(self, message):
        """The encrypted form of a message to WeCom."""
        plain = os.urandom(RANDOM) + struct.pack(">I", len(message)) + message + self._receive_id
        padding = BLOCK - len(plain) % BLOCK
        encryptor = self._cipher().encryptor()
        return base64.b64encode(encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize()).decode()
