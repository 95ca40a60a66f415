"""The calls of Hugging Face's hub that its client makes, for tests: hub_server.py ROOT

ROOT/models/OWNER/NAME and ROOT/datasets/OWNER/NAME hold a repository's files. A file .gated in one means that
nobody may read it, .size that all its files claim so many bytes. Prints its address. A commit that is pushed
becomes such a folder. Every request is a line of ROOT/requests.
"""
import base64, hashlib, json, os, re, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = os.path.abspath(sys.argv[1])


def files_of(folder):
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if not name.startswith("."):
                found[os.path.relpath(path, folder)] = path
    return dict(sorted(found.items()))


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, code=200, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, code, error):
        self.answer({"error": error}, code, X_Error_Code=error, X_Error_Message=error)

    def repository(self, kind, name):
        """Its folder, commit and files, or None with a refusal sent."""
        folder = os.path.join(ROOT, kind, name)
        if not os.path.isdir(folder):
            return self.refuse(404, "RepoNotFound")
        files = files_of(folder)
        commit = hashlib.sha1(b"".join(name.encode() + read(path) for name, path in files.items())).hexdigest()
        return folder, commit, files

    def do_GET(self):
        with open(os.path.join(ROOT, "requests"), "a") as log:
            log.write(f"{self.command} {self.path}\n")
        path = self.path.split("?")[0]
        if info := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/(revision|tree)/([^/]+)", path):
            return self.describe(*info.groups())
        if file := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.send(*file.groups())
        self.refuse(404, "EntryNotFound")

    do_HEAD = do_GET

    def describe(self, kind, name, what, revision):
        if not (found := self.repository(kind, name)):
            return
        folder, commit, files = found
        if revision not in ("main", commit):
            return self.refuse(404, "RevisionNotFound")
        claimed = os.path.join(folder, ".size")
        sizes = {f: int(read(claimed)) if os.path.exists(claimed) else os.path.getsize(files[f]) for f in files}
        blobs = {f: hashlib.sha1(read(files[f])).hexdigest() for f in files}
        if what == "tree":
            return self.answer([{"type": "file", "path": f, "oid": blobs[f], "size": sizes[f]} for f in files])
        siblings = [{"rfilename": f, "size": sizes[f], "blobId": blobs[f]} for f in files]
        self.answer({"_id": "0", "id": name, "sha": commit, "private": False, "gated": False, "disabled": False,
                     "downloads": 0, "likes": 0, "tags": [], "siblings": siblings})

    def send(self, datasets, name, revision, file):
        if not (found := self.repository("datasets" if datasets else "models", name)):
            return
        folder, commit, files = found
        if os.path.exists(os.path.join(folder, ".gated")):
            return self.refuse(403, "GatedRepo")
        if file not in files:
            return self.refuse(404, "EntryNotFound")
        data = read(files[file])
        self.answer(data, ETag=f'"{hashlib.sha1(data).hexdigest()}"', X_Repo_Commit=commit)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with open(os.path.join(ROOT, "requests"), "a") as log:
            log.write(f"POST {self.path}\n")
        if self.path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted.get('organization') or 'me'}/{wanted['name']}"
            os.makedirs(os.path.join(ROOT, "models", name), exist_ok=True)
            return self.answer({"url": f"http://{self.headers['Host']}/{name}", "name": name, "id": name})
        if push := re.fullmatch(r"/api/models/([^/]+/[^/]+)/(preupload|commit)/main", self.path.split("?")[0]):
            return self.take(*push.groups(), body)
        self.answer({})

    def take(self, name, what, body):
        if what == "preupload":
            return self.answer({"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False}
                                          for f in json.loads(body)["files"]]})
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                path = os.path.join(ROOT, "models", name, line["value"]["path"])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(base64.b64decode(line["value"]["content"]))
        url = f"http://{self.headers['Host']}/{name}/commit/" + "0" * 40
        self.answer({"success": True, "commitOid": "0" * 40, "commitUrl": url, "hookOutput": ""})


server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
