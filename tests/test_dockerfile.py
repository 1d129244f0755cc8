"""The Dockerfile without Docker: what it says, and its steps run by hand, as they stand there."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from agent_runs import says, uses
from compose_file import compose_redis, services
from pages import ROOT

from onward.local_services import TemporalServer
from onward.testing import ManagedProcess, clean_env, wait_until
from onward.testing.messages_api import Script, ScriptedAPI

TEXT = (ROOT / "Dockerfile").read_text()
IGNORED = (ROOT / ".dockerignore").read_text()
ALLOWED = re.findall(r"^!(\S+)$", IGNORED, re.MULTILINE)
STEPS = [
    tuple(line.split(maxsplit=1))
    for line in re.sub(r"\\\n\s*", "", TEXT).splitlines()
    if line and not line.startswith("#")
]
HERE_TOO = ("/opt/onward", "/src", "/app", "/payloads", "/workspace")
"""Folders of the image that stand in a temporary one when its steps are run by hand."""


def last(instruction: str) -> str:
    """Tell what the image is left with."""
    return [args for name, args in STEPS if name == instruction][-1]


# ---- what it says


def test_a_worker_is_asked_to_stop_and_not_its_shell() -> None:
    """Docker signals the process that it started: no shell may stand before the worker."""
    assert json.loads(last("CMD")) == ["onward-worker"]
    assert not [args for name, args in STEPS if name in {"ENTRYPOINT", "STOPSIGNAL"}]


def test_nobody_is_root_in_it() -> None:
    """By number, so that a platform that forbids root can tell."""
    assert int(last("USER")) >= 10_000


def test_packages_are_those_of_the_lock() -> None:
    """With hashes, and nothing is resolved anew beside them."""
    installs = [args for name, args in STEPS if name == "RUN" and "pip install" in args]
    assert all("--no-deps" in each or "--require-hashes" in each for each in installs)


def test_nothing_gets_in_that_is_not_said() -> None:
    """A `.env` with passwords, say: the image may be pushed to a registry."""
    lines = [line for line in IGNORED.splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert lines[-1] == "**/__pycache__"
    assert sorted(lines[1:-1]) == sorted(f"!{name}" for name in ALLOWED)
    assert all((ROOT / name).exists() for name in ALLOWED)


# ---- its steps


@dataclass
class ByHand:
    """The image without Docker: its folders in a temporary one, its user's id, its environment."""

    root: Path
    env: dict[str, str] = field(default_factory=dict[str, str])

    def build(self) -> None:
        """Do what each instruction says, in order."""
        context = self.root / "context"
        for name in ALLOWED:
            self._copy(ROOT / name, context / name)
        (self.root / "app").mkdir()
        (self.root / "bin").mkdir()
        (self.root / "bin" / "python").symlink_to(_python())
        for name, args in STEPS:
            if name == "RUN" and not args.startswith("useradd "):
                self._run(args)
            elif name == "COPY" and not args.startswith("--from="):
                self._copy(context / args.split()[0], Path(self.here(args.split()[1])), args)
            elif name == "ENV":
                self.env |= dict(word.split("=", 1) for word in self.here(args).split())
        self.env["PATH"] = self.env["PATH"].replace("$PATH", "/usr/bin:/bin")

    def here(self, text: str) -> str:
        """Put folders of ours in place of those of the image."""
        return re.sub(rf"(?<![\w.])({'|'.join(HERE_TOO)})(?![\w.])", rf"{self.root}\1", text)

    async def start(self, name: str, argv: list[str], env: Mapping[str, str]) -> ManagedProcess:
        """Start a command in a container."""
        user = last("USER")
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        return await ManagedProcess.spawn(
            [*(as_user if os.geteuid() == 0 else []), *argv],
            log=self.root / f"{name}.log",
            env={**self.env, "HOME": str(self.root / "app"), **env},
            cwd=self.root / "app",
        )

    async def run(self, argv: list[str], env: Mapping[str, str]) -> tuple[int, str]:
        """Run a command in a container to its end; gives its status and what it said."""
        process = await self.start(f"command-{len(list(self.root.glob('*.log')))}", argv, env)
        return await process.wait(60), process.output()

    def _run(self, command: str) -> None:
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        ran = subprocess.run(
            ["sh", "-c", self.here(command)],
            env=clean_env({"PATH": path}),
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def _copy(self, source: Path, target: Path, args: str = "") -> None:
        if args.endswith("/") and source.is_file():
            target /= source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file():
            shutil.copy(source, target)
        else:
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target, ignore=ignore, dirs_exist_ok=True)


def _python() -> Path:
    """Find an interpreter that the image's user may run too: one in root's home is none."""
    own = Path(sys.executable).resolve()
    reachable = all(folder.stat().st_mode & 0o001 for folder in own.parents)
    return own if reachable else Path("/usr/bin/python3")


@pytest.fixture
def image() -> Generator[ByHand]:
    """Build the image by hand."""
    with tempfile.TemporaryDirectory(prefix="onward-image-") as folder:
        Path(folder).chmod(0o755)  # its user is another than ours
        made = ByHand(Path(folder))
        made.build()
        yield made


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_its_worker_works_and_drains(image: ByHand, temporal: TemporalServer) -> None:
    """As the image's user, in the environment of the compose file, from start to SIGTERM."""
    write = uses(("write", {"file_path": "haiku.txt", "content": "A frog, a pond"}))
    scripts = {"default": Script(steps=[write, says("Written.")])}
    async with compose_redis() as redis, ScriptedAPI(scripts) as api:
        env = services()["worker"]["environment"] | {
            "TEMPORAL_ADDRESS": temporal.address,
            "ONWARD_REDIS_URL": redis.url,
            "ONWARD_TASK_QUEUE": "of-the-image",
            "ANTHROPIC_BASE_URL": api.url,
        }
        worker = await image.start("worker", json.loads(last("CMD")), env)
        try:
            await worker.logged("polling", 60)
            check = json.loads(last("HEALTHCHECK").partition("CMD")[2])
            await wait_until(lambda: healthy(image, check, env), 30, what="a healthy container")
            folder = image.root / "workspace"
            start = ["start", "A haiku.", "--agent", "coder", "--workspace", str(folder)]
            status, said = await image.run(["onward", *start, "--id", "haiku", "--wait"], env)
            assert (status, "Written." in said) == (0, True), said + worker.tail()
            assert (folder / "haiku.txt").read_text() == "A frog, a pond"
            assert await worker.stop() == 0
            assert "stopped" in worker.output()
        finally:
            await worker.stop()


async def healthy(image: ByHand, check: list[str], env: Mapping[str, str]) -> bool:
    """Run the image's health check in the container."""
    status, said = await image.run(check, env)
    assert status in {0, 1}, said  # not yet, and nothing else is wrong
    return status == 0
