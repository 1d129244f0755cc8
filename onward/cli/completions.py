"""What makes a shell complete the commands of `starter.py`."""

from typing import Literal

from cyclopts import App

Shell = Literal["bash", "zsh", "fish"]

_NAME = "starter"
"""What cyclopts completes; it takes no name with a dot."""

_BASH = """
_starter_of_python() {
  # Of any other script bash offers names of files, as it does by itself.
  [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]##*/} == starter.py ]] || return 0
  COMP_WORDS=("${COMP_WORDS[@]:1}")
  ((COMP_CWORD -= 1))
  _starter
}
complete -F _starter starter.py
complete -o bashdefault -o default -F _starter_of_python python python3
"""
_ZSH = "\ncompdef _cyclopts_starter starter.py\n"


def script(app: App, shell: Shell) -> str:
    """Write the script that a shell sources, from the commands and options that `app` has."""
    made = app.generate_completion(prog_name=_NAME, shell=shell)
    match shell:
        case "bash":
            return made + _BASH
        case "zsh":
            return made + _ZSH
        case "fish":
            return made.replace(f"complete -c {_NAME} ", f"complete -c {_NAME}.py ")
