"""The state of a Hub of models in memory, and its answers, written from the Hub's HTTP API.

Names ending in .safetensors go through the LFS batch endpoint and are downloaded by redirect, all
other files travel within the commit.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

from hub_metadata import metadata, metadata_errors

USER = "someone"


class RefusedError(Exception):
    """An answer with an error status; `code` is how the Hub names the error."""

    def __init__(self, status, message, code=""):
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True)
class Answer:
    """What is sent back: JSON unless it is bytes."""

    content: object
    status: int = 200
    headers: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Commit:
    """Files {path: bytes} at one moment."""

    files: dict
    message: str
    parent: str

    @property
    def oid(self):
        """The name of the commit."""
        parts = [
            self.parent,
            self.message,
            *sorted((p, file_oid(p, b)) for p, b in self.files.items()),
        ]
        return hashlib.sha1(repr(parts).encode()).hexdigest()


@dataclass
class Repository:
    """Commits by oid, and the branches and pull requests that name them."""

    private: bool = False
    commits: dict = field(default_factory=dict)
    refs: dict = field(default_factory=dict)

    def __post_init__(self):
        self.refs["main"] = self.add(Commit({}, "initial commit", ""))

    def add(self, commit):
        """Keep a commit; return its oid."""
        self.commits[commit.oid] = commit
        return commit.oid

    def at(self, revision):
        """Return the commit of a branch, a pull request or an oid."""
        oid = self.refs.get(unquote(revision), revision)
        if oid not in self.commits:
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[oid]

    @property
    def files(self):
        """The files of the main branch."""
        return self.at("main").files


def is_large(path):
    return path.endswith(".safetensors")


def file_oid(path, content):
    """Return how the Hub names a file's content: by git's hash, large ones by SHA-256."""
    if is_large(path):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def entry(path, content):
    """Describe a file as the Hub's listings do."""
    found = {"type": "file", "path": path, "size": len(content), "oid": file_oid(path, content)}
    if is_large(path):
        found["lfs"] = {"oid": found["oid"], "size": len(content), "pointerSize": 130}
    return found


class Hub:
    """The state of the server, and its answers.

    Attributes:
        repositories: By name.
        requests: Method and path of every request so far.
        breaks: Told method and path of each request; where it is true, the answer is an error.
    """

    def __init__(self):
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.breaks: Callable[[str, str], bool] = lambda method, path: False
        self.url = ""
        # As on the real Hub, of another host: clients follow redirects differently there.
        self.large_url = ""

    def repository(self, name, *, is_known):
        """Return a repository that the sender may see."""
        found = self.repositories.get(name)
        if found is None or (found.private and not is_known):
            raise RefusedError(404 if is_known else 401, "Repository not found", "RepoNotFound")
        return found

    def create(self, request):
        """POST /api/repos/create."""
        body = request.json()
        name = f"{body.get('organization') or USER}/{body['name']}"
        answer = {"url": f"{self.url}/{name}", "name": name}
        if name in self.repositories:
            return Answer({"error": "You already created this model repo"} | answer, 409)
        private = body.get("private") or body.get("visibility") == "private"
        self.repositories[name] = Repository(private=bool(private))
        return Answer(answer)

    def validate(self, request):
        """POST /api/validate-yaml: what the Hub documents of a model card's metadata."""
        errors = metadata_errors(request.json()["content"])
        found = {"errors": [{"message": error} for error in errors], "warnings": []}
        return Answer(found, 400 if errors else 200)

    def branch(self, request, name, revision):
        """POST /api/models/NAME/branch/REVISION."""
        refs = self.repository(name, is_known=request.is_known).refs
        if unquote(revision) in refs:
            raise RefusedError(409, "Reference already exists")
        refs[unquote(revision)] = refs["main"]
        return Answer({})

    def info(self, request, name, revision="main"):
        """GET /api/models/NAME[/revision/REVISION]."""
        repository = self.repository(name, is_known=request.is_known)
        commit = repository.at(revision)
        card = commit.files.get("README.md", b"").decode()
        return Answer(
            {
                **{"id": name, "modelId": name, "sha": commit.oid, "private": repository.private},
                **{
                    "tags": [],
                    "downloads": 0,
                    "siblings": [{"rfilename": p} for p in commit.files],
                },
                **{"cardData": metadata(card), "pipeline_tag": metadata(card).get("pipeline_tag")},
            }
        )

    def tree(self, request, name, revision):
        """GET /api/models/NAME/tree/REVISION, POST /api/models/NAME/paths-info/REVISION."""
        files = self.repository(name, is_known=request.is_known).at(revision).files
        wanted = files if request.command == "GET" else request.json()["paths"]
        return Answer([entry(path, files[path]) for path in wanted if path in files])

    def preupload(self, request, name, revision):
        """POST /api/models/NAME/preupload/REVISION."""
        files = self.repository(name, is_known=request.is_known).at(revision).files
        answers = []
        for sent in request.json()["files"]:
            path = sent["path"]
            mode = "lfs" if is_large(path) else "regular"
            oid = file_oid(path, files[path]) if path in files else None
            answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return Answer({"files": answers})

    def batch(self, request, name):
        """POST /NAME.git/info/lfs/objects/batch."""
        self.repository(name, is_known=request.is_known)
        answers = []
        for sent in request.json()["objects"]:
            upload = {"upload": {"href": f"{self.large_url}/{sent['oid']}"}}
            answers.append(sent if sent["oid"] in self.large else sent | {"actions": upload})
        return Answer({"transfer": "basic", "objects": answers})

    def put_large(self, request, oid):
        """PUT /large/OID."""
        content = request.body
        if hashlib.sha256(content).hexdigest() != oid:
            raise RefusedError(400, "the content is not what it is called")
        self.large[oid] = content
        return Answer({}, headers={"ETag": oid})

    def get_large(self, request, oid):
        """GET /large/OID."""
        return Answer(self.large[oid], headers={"ETag": f'"{oid}"'})

    def commit(self, request, name, revision):
        """POST /api/models/NAME/commit/REVISION, one line of JSON for each operation."""
        repository = self.repository(name, is_known=request.is_known)
        parent = repository.at(revision)
        files, message = dict(parent.files), ""
        for line in request.body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            match operation["key"]:
                case "header":
                    message = value["summary"]
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.large[value["oid"]]
                case "deletedFile":
                    del files[value["path"]]
        oid = repository.add(Commit(files, message, parent.oid))
        pull_request = None
        if "create_pr" in request.query:
            number = sum(ref.startswith("refs/pr/") for ref in repository.refs) + 1
            repository.refs[f"refs/pr/{number}"] = oid
            pull_request = f"{self.url}/{name}/discussions/{number}"
        else:
            repository.refs[unquote(revision)] = oid
        url = f"{self.url}/{name}/commit/{oid}"
        return Answer({"commitUrl": url, "commitOid": oid, "pullRequestUrl": pull_request})

    def resolve(self, request, name, revision, path):
        """GET or HEAD /NAME/resolve/REVISION/PATH."""
        commit = self.repository(name, is_known=request.is_known).at(revision)
        path, headers = unquote(path), {"X-Repo-Commit": commit.oid}
        if path not in commit.files:
            headers["X-Error-Code"] = "EntryNotFound"
            return Answer({"error": "Entry not found"}, 404, headers)
        content = commit.files[path]
        oid = file_oid(path, content)
        if not is_large(path):
            return Answer(content, headers=headers | {"ETag": f'"{oid}"'})
        headers |= {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(content))}
        return Answer(b"", 302, headers | {"Location": f"{self.large_url}/{oid}"})
