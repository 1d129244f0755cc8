"""A conversation as it was sent to Claude, so that it can be sent again."""

import json
import re
from collections.abc import Iterator

from onward.retelling.steps import Retelling
from onward.transcript import parted

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def request(retelling: Retelling) -> Iterator[str]:
    """Give the body of a request, part by part: the frozen fields, then the messages.

    A last reply whose calls Claude was not told the results of is left out: the API would refuse
    it. What is left is the newest request as it was sent.
    """
    asked, replied = parted(retelling.messages)
    messages = [*asked, *replied] if retelling.last.answered else asked
    yield _ascii(f'{retelling.opening.frozen.rstrip()[:-1]},"messages":[')
    for number, message in enumerate(messages):
        yield _ascii(f"{',' if number else ''}\n{message.decode()}")
    yield "\n]}\n"


def _ascii(text: str) -> str:
    # Outside strings JSON has no such letters; inside, an escape is the same letter.
    return _NOT_ASCII.sub(lambda letter: json.dumps(letter[0])[1:-1], text)
