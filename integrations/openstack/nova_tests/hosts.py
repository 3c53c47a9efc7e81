"""Stand-ins for the homenode of hosts: HTTPS that wants a client's certificate, as `daemon --listen` does."""

import datetime
import http.server
import ipaddress
import json
import os
import ssl
import subprocess
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certificates(folder):
    """ca.pem signs server.pem and client.pem; each of the two has its key in the same file."""
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)

    def make(name, issuer=None, issuer_key=None):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
        )
        cert = builder.sign(issuer_key or key, hashes.SHA256())
        pem = cert.public_bytes(serialization.Encoding.PEM)
        if issuer:
            pem += key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        path = os.path.join(folder, name + ".pem")
        with open(path, "wb") as f:
            f.write(pem)
        return cert, key, path

    ca, ca_key, ca_path = make("ca")
    return ca_path, make("server", ca, ca_key)[2], make("client", ca, ca_key)[2]


class Homenodes:
    """Answers GET /HOST/v1/room with what is set of the host; a process of its own, as the real ones."""

    def __init__(self, folder):
        self.folder = folder
        self.ca, self.cert, self.client = certificates(folder)
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), folder, self.ca, self.cert], stdout=subprocess.PIPE, text=True
        )
        self.url = "https://127.0.0.1:%d/{host}" % int(self.process.stdout.readline())

    def set(self, host, room):
        with open(os.path.join(self.folder, host + ".json"), "w") as f:
            json.dump(room, f)

    def asked(self):
        with open(os.path.join(self.folder, "asked")) as f:
            return set(f.read().split())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def serve(folder, ca, cert):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(cert)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            host, _, path = self.path.lstrip("/").partition("/")
            with open(os.path.join(folder, "asked"), "a") as f:
                print(host, file=f)
            try:
                with open(os.path.join(folder, os.path.basename(host) + ".json"), "rb") as f:
                    status, body = 200 if path == "v1/room" else 404, f.read()
            except FileNotFoundError:
                status, body = 404, b'{"code": "not found", "error": "no such host"}'
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def room(nodes, distances=((10, 21), (21, 10))):
    """An answer to GET /v1/room: of each node the CPUs and GiB that are left, of 6 and 8."""
    return {
        "schema": "homenode-room/2",
        "mode": "enforce",
        "host": {
            "schema": "homenode-host/1",
            "nodes": [
                {"id": i, "package": i, "cpus": "%d-%d" % (6 * i, 6 * i + 5), "memory_kib": 8 << 20, "kind": "dram"}
                for i in range(len(nodes))
            ],
            "distances": [list(row) for row in distances],
        },
        "nodes": [
            {"node": i, "cpus": cpus, "shared_vcpus": cpus, "memory_kib": gib << 20, "huge_pages": []}
            for i, (cpus, gib) in enumerate(nodes)
        ],
    }


if __name__ == "__main__":
    serve(*sys.argv[1:])
