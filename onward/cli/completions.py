"""What makes a shell complete the commands of `onward`."""

from typing import Literal

from cyclopts import App

Shell = Literal["bash", "zsh", "fish"]

_NAME = "onward"
"""What cyclopts completes. In a checkout people type `starter.py`, which means the same."""

_BASH = """
_onward_of_python() {
  # Of any other script bash offers names of files, as it does by itself.
  [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]##*/} == starter.py ]] || return 0
  COMP_WORDS=("${COMP_WORDS[@]:1}")
  ((COMP_CWORD -= 1))
  _onward
}
complete -F _onward starter.py
complete -o bashdefault -o default -F _onward_of_python python python3
"""
_ZSH = "\ncompdef _cyclopts_onward onward starter.py\n"
_FISH = "\ncomplete -c starter.py -w onward\n"


def script(app: App, shell: Shell) -> str:
    """Write the script that a shell sources, from the commands and options that `app` has."""
    made = app.generate_completion(prog_name=_NAME, shell=shell)
    match shell:
        case "bash":
            return made + _BASH
        case "zsh":
            return made + _ZSH
        case "fish":
            return made + _FISH
