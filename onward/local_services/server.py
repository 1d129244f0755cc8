"""What the two embedded servers have in common: start, readiness, restart, and who ends them."""

from abc import ABC, abstractmethod

import psutil

from onward.local_services.data_dir import HeldFolder
from onward.local_services.ports import free_ports, remember_ports, remembered_ports
from onward.managed_process import ManagedProcess, ProcessFailed, clean_env

START_DEADLINE_S = 60.0
"""Until a server answers; generous, since a large file of an earlier run must be read first."""

_START_TRIES = 5


class LocalServer(ABC):
    """A server process on loopback. Restarted, it keeps its ports and its data."""

    port_count = 1

    def __init__(self, folder: HeldFolder) -> None:
        self.folder = folder.path
        self._lock_fd = folder.lock_fd
        self._process: ManagedProcess | None = None
        self.ports: list[int] = []

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command line for the present ports."""

    @abstractmethod
    async def _answers(self) -> bool:
        """Whether the server answers a real request."""

    @property
    def pid(self) -> int:
        """Process id of the server; another one after a restart."""
        return self.process.pid

    @property
    def process(self) -> ManagedProcess:
        """The running process. Raises ProcessFailed before the first start."""
        if self._process is None:
            raise ProcessFailed(f"{type(self).__name__} in {str(self.folder)!r} was never started")
        return self._process

    async def start(self) -> None:
        """Start it, on the ports it had before if they are free, and wait until it answers.

        Raises ProcessFailed with the end of its log.
        """
        remembered = self.folder / "ports.json"
        self.ports = self.ports or remembered_ports(remembered, self.port_count)
        for tries_left in reversed(range(_START_TRIES)):
            try:
                await self._start_once()
                break
            except ProcessFailed:
                taken = "address already in use" in self.process.tail().lower()
                if not taken or not tries_left:
                    raise
                # Someone was faster, between our look and the server's.
                self.ports = free_ports(self.port_count)
        remember_ports(remembered, self.ports)

    async def _start_once(self) -> None:
        self._process = await ManagedProcess.spawn(
            self._command(),
            log=self.folder / "server.log",
            env=clean_env(),
            cwd=self.folder,
            pass_fds=(self._lock_fd,),
        )
        try:
            await self.process.until(self._listens, START_DEADLINE_S, what="listening on its port")
            await self.process.until(self._answers, START_DEADLINE_S, what="its first answer")
        except BaseException:
            await self.process.stop()
            raise

    def _listens(self) -> bool:
        """Whether *this* process has the port: another server there would answer us as well."""
        try:
            connections = psutil.Process(self.pid).net_connections(kind="tcp")
        except psutil.Error:
            return False
        return any(
            c.status == psutil.CONN_LISTEN and c.laddr.port == self.ports[0] for c in connections
        )

    async def stop(self) -> None:
        """End it cleanly."""
        await self.process.stop()

    async def kill(self) -> None:
        """SIGKILL it, as a machine that dies would."""
        await self.process.kill()

    async def restart(self) -> None:
        """Kill it and start it again on the same ports and data."""
        await self.kill()
        await self.start()

    def pause(self) -> None:
        """Let it stand still: connections stay open and nothing answers."""
        self.process.pause()

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self.process.resume()
