"""`completion`: what a shell needs to complete our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from watcher.cli.terminal import Terminal

_PROGRAM = "hermes-checkpoints"
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that has a shell complete commands and options.

    \b
    bash: hermes-checkpoints completion bash > ~/.local/share/bash-completion/completions/hermes-checkpoints
    zsh:  hermes-checkpoints completion zsh > "${fpath[1]}/_hermes-checkpoints"
    fish: hermes-checkpoints completion fish > ~/.config/fish/completions/hermes-checkpoints.fish
    """  # noqa: D301 - click takes the backspace character for "keep these lines"
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click knows these shells
    script = kind(context.find_root().command, {}, _PROGRAM, "_HERMES_CHECKPOINTS_COMPLETE").source()
    terminal = context.find_object(Terminal)
    assert terminal is not None  # noqa: S101 - the root makes it
    terminal.show({"shell": shell, "script": script}, lambda: script)
