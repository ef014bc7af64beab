"""Brings files that are no pages from the other side: exchanged as pages are, so nothing is overwritten unseen. All of it blocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from knowledge.errors import UnwritableDocument
from knowledge.git.checkout import Checkout
from knowledge.writing.files.exchange import Folder, temporary_name
from knowledge.writing.files.file_set import named_errors

_EXECUTABLE = "100755"


def beside(path: str, commit: str) -> str:
    """Return the path of a copy beside the file, named after the commit that it is from."""
    pure = PurePosixPath(path)
    return str(pure.with_name(f"{pure.stem} ({commit[:9]}){pure.suffix}"))


@dataclass(frozen=True, slots=True)
class WorkingFile:
    """A file of the working tree. It is expected to have the content of `blob`; None means that no file is expected."""

    checkout: Checkout
    path: str
    blob: str | None

    def put(self, raw: bytes, mode: str = "") -> None:
        """Give it these bytes.

        Raises:
            UnwritableDocument: the file has other content, or can't be written; nothing was changed.
        """
        *above, name = PurePosixPath(self.path).parts
        staged = temporary_name("")
        with named_errors(self.path), Folder.open(str(self.checkout.top), above, create=True) as folder:
            try:
                folder.stage(staged, raw, folder.attributes(name) if self.blob else None)
                if mode == _EXECUTABLE:
                    (self.checkout.top / self.path).with_name(staged).chmod(0o755)
                if self.blob is None:
                    self._publish(folder, staged, name, raw)
                else:
                    folder.exchange(staged, name)
                    if not self._is_blob(folder, staged):
                        folder.exchange(staged, name)
                        raise self._changed()
                folder.sync()
            finally:
                folder.unlink(staged)

    def remove(self) -> None:
        """Remove it, if it is there.

        Raises:
            UnwritableDocument: as `put`.
        """
        *above, name = PurePosixPath(self.path).parts
        staged = temporary_name("")
        try:
            with named_errors(self.path), Folder.open(str(self.checkout.top), above) as folder:
                folder.publish(name, staged)
                if not self._is_blob(folder, staged):
                    folder.publish(staged, name)
                    raise self._changed()
                folder.unlink(staged)
                folder.sync()
        except UnwritableDocument as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise

    def _publish(self, folder: Folder, staged: str, name: str, raw: bytes) -> None:
        try:
            folder.publish(staged, name)
        except FileExistsError:
            if folder.read(name) != raw:
                raise self._changed() from None

    def _is_blob(self, folder: Folder, name: str) -> bool:
        return self.checkout.blob_of(self.path, folder.read(name)) == self.blob

    def _changed(self) -> UnwritableDocument:
        mend = "commit it, or move the file away, and synchronise again"
        return UnwritableDocument(self.path, "Git does not have what it is now", mend)
