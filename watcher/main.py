"""The command's entry: a hook takes the short way, everything else the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command with the process's arguments, and end the process with its exit code."""
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0] == "hook" and not arguments[1].startswith("-"):
        from watcher.hook import main as run_hook  # noqa: PLC0415 - the command line takes longer to import than a hook

        sys.exit(run_hook(arguments[1]))
    from watcher.cli.root import run  # noqa: PLC0415 - as above

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
