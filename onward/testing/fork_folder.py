"""Removes the folder of the fork server's socket, in which nobody else will.

Python does so as it ends, but a command ends without that (`starter.main`), and one that is killed
does too. The fork server ends after either. Imported for that alone, by the fork server.
"""

import atexit
import os
import shutil

from onward.testing.warm import FORK_FOLDER_ENV

_server = os.getpid()


def _remove() -> None:
    if os.getpid() == _server:  # what a worker's tool forks inherits this, and may end meanwhile
        shutil.rmtree(os.environ[FORK_FOLDER_ENV], ignore_errors=True)


atexit.register(_remove)
