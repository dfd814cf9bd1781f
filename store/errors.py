"""What can go wrong in the store.

```
StoreError                      kind "store", exit code 1
├── StoreBusyError              kind "busy", exit code 75: another process holds the lock
├── CorruptFileError            kind "corrupt": a file of ours that can't be understood, left as it is
├── ObjectMissingError          kind "missing-object": a tree or blob that a checkpoint needs is not in the store
├── GitFailedError              kind "git": the git program failed or is not there
├── CheckpointNotFoundError     kind "not-found": no such checkpoint of this project
├── TooBroadError               kind "too-broad": this directory is never captured
├── NestedRepositoriesError     kind "nested": the rollback would touch what was not captured
├── TooManyFilesError           kind "too-many-files": the project is larger than the settings allow
├── ChangedMeanwhileError       kind "changed": a file is not what the rollback was planned with; nothing was changed
├── SafetyCheckpointError       kind "safety": no way back could be recorded, so nothing was changed
├── PackFailedError             kind "pack": many objects could not be written, and none of them is in the store
├── NoSpaceError                kind "no-space": too little free disk to add anything
└── DeadlinePassedError         kind "deadline": the time the caller gave is over
SelectionError                  kind "usage", exit code 2 (a UsageError): a path or id that is refused as written
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.errors import CheckpointError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class StoreError(CheckpointError):
    """Report a failure of the store."""

    kind = "store"


class StoreBusyError(StoreError):
    """Report that the lock was held by another process for as long as the caller could wait."""

    kind = "busy"
    exit_code = 75


class CorruptFileError(StoreError):
    """Report a small file that can't be understood; it is left alone."""

    kind = "corrupt"


class ObjectMissingError(StoreError):
    """Report an object that should be in the store and is not."""

    kind = "missing-object"


class GitFailedError(StoreError):
    """Report that the git program failed, did not answer, or is not installed."""

    kind = "git"


class CheckpointNotFoundError(StoreError):
    """Report an id or number that names no checkpoint of the project."""

    kind = "not-found"


class TooBroadError(StoreError):
    """Report a directory that is never captured, such as the home directory."""

    kind = "too-broad"


class NestedRepositoriesError(StoreError):
    """Report a rollback that would touch nested repositories, whose files are in no checkpoint."""

    kind = "nested"

    def __init__(self, paths: Sequence[str], *, hint: str = "") -> None:
        listed = ", ".join(paths)
        super().__init__(
            f"Checkpoint contains nested git repositories that were not captured ({listed}); "
            "rollback was not performed",
            hint=hint,
        )
        self.fields = {"nested_repositories": list(paths)}
        """What the JSON answer carries beside the message."""


class ChangedMeanwhileError(StoreError):
    """Report a file that is not what a rollback was planned with, so that nothing was changed."""

    kind = "changed"


class RollbackCutOffError(StoreError):
    """Report that an earlier rollback was cut off, and has to be finished or taken back before the next one."""

    kind = "cut-off"

    def __init__(self) -> None:
        super().__init__(
            "An earlier rollback was cut off.",
            hint="Finish it with: rollback --resume; or take it back with: rollback --abort",
        )


class NothingCutOffError(StoreError):
    """Report that there is no rollback to finish or to take back."""

    kind = "not-found"

    def __init__(self) -> None:
        super().__init__("No rollback was cut off here.", hint="To undo a rollback that was done: rollback 1")


class SafetyCheckpointError(StoreError):
    """Report that the state before a rollback could not be recorded."""

    kind = "safety"


class DeadlinePassedError(StoreError):
    """Report that the work was given up since the caller's time is over."""

    kind = "deadline"


class SelectionError(UsageError):
    """Report a path or an id that is refused as it is written."""


class TooManyFilesError(StoreError):
    """Report a project with more captured files than the settings allow."""

    kind = "too-many-files"
    seen: Collection[bytes] = ()
    """The files that were met before the look was given up; none when it was not."""


class NoSpaceError(StoreError):
    """Report that there is too little free disk to add anything."""

    kind = "no-space"


class NotLiveError(StoreError):
    """Report that a project's directory is not there to be looked at, though its path may be."""

    kind = "not-live"


class PackFailedError(StoreError):
    """Report that many objects could not be written; none of them is in the store."""

    kind = "pack"
