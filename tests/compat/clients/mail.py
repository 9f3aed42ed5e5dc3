#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ask an IMAP and POP3 server; print "NAME VALUE" lines. usage: mail.py ADDRESS FILE"""
import base64
import imaplib
import poplib
import re
import ssl
import sys
import threading

host, path = sys.argv[1:]
with open(path, "rb") as large:
    body = b"\r\n".join(base64.b64encode(large.read())[i:i + 76]
                        for i in range(0, 1000000, 76))
message = b"From: a@example.org\r\nTo: b@example.org\r\nSubject: large\r\n\r\n" + body + b"\r\n"
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE


def login(tls=None):
    if tls == "imaps":
        client = imaplib.IMAP4_SSL(host, 993, ssl_context=context, timeout=20)
    else:
        client = imaplib.IMAP4(host, 143, timeout=20)
        if tls == "starttls":
            client.starttls(context)
    client.login("user", "secret")
    return client


def mails(kind):
    client = login(kind)
    client.create("box")
    client.select("box")
    client.store("1:*", "+FLAGS", r"\Deleted") if int(client.select("box")[1][0]) else None
    client.expunge()
    for _ in range(3):
        assert client.append("box", None, None, message)[0] == "OK"
    count = int(client.select("box")[1][0])
    same = sum(client.fetch(str(n), "(RFC822)")[1][0][1] == message for n in range(1, count + 1))
    print(f"imap.{kind}", count, same, *client.search(None, "SUBJECT", "large")[1])
    print(f"imap.{kind}.logout", client.logout()[0])


def idle():
    """One client waits in IDLE, another client adds a mail."""
    client = login()
    client.select("INBOX")
    client.send(b"x IDLE\r\n")
    print("idle", client.readline().strip().decode())

    def bring():
        other = login()
        other.append("INBOX", None, None, b"Subject: new\r\n\r\nnews\r\n")
        other.logout()

    thread = threading.Thread(target=bring)
    thread.start()
    line = client.readline()
    while b"EXISTS" not in line:
        line = client.readline()
    print("idle.told", re.sub(rb"\d+", b"N", line.strip()).decode())
    thread.join()
    client.send(b"DONE\r\n")
    client.shutdown()


def pop(tls):
    client = poplib.POP3(host, 110, timeout=20)
    if tls:
        client.stls(context)
    client.user("user")
    client.pass_("secret")
    count = client.stat()[0]
    lines = client.retr(count)[1]
    print("pop3" + (".tls" if tls else ""), b"news" in lines, client.quit().decode())


def many():
    clients = [login() for _ in range(15)]
    print("many", sum(c.noop()[0] == "OK" for c in clients))
    for client in clients:
        client.logout()


for kind in ("plain", "starttls", "imaps"):
    mails(kind)
idle()
pop(False)
pop(True)
many()
try:
    imaplib.IMAP4(host, 143, timeout=20).login("user", "wrong")
except imaplib.IMAP4.error as error:
    print("wrong", error)
