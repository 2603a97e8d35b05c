# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of /sys that stay open from scrape to scrape: one system call for a value instead of three.

An open attribute pins neither the device nor its driver: without the device it returns ENODEV (kernfs_drain()). It
follows a device that is renamed, so the directory's inode is compared before each use; a new directory has another.
"""

from __future__ import annotations

import errno
import os
import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.sysfs import SysfsError

# A value is a page at most (Documentation/filesystems/sysfs.rst), and nearly always a number; none is as long as this.
_PAGE, _NUMBER = 4096, 64

# These do not change while a device and its ports exist: for another value they are removed and recreated.
_UNCHANGING = frozenset({"board_id", "link_layer", "node_type"})

# Most counters do not change between two scrapes, many are 0: this many numbers are cached by the bytes read.
_MOST_NUMBERS = 8192

Signature = t.Tuple[int, int, int]


class _Directory:
    """Open files of one directory, by name."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.handles: dict[str, int] = {}
        # All names, once they were requested.
        self.names: list[str] | None = None
        self.known: t.Any = None
        self.unchanging: dict[str, str | None] = {}

    def close(self) -> None:
        for handle in self.handles.values():
            os.close(handle)
        self.handles.clear()


class KeptFiles:
    """read(), names() and attributes() of the module sysfs.

    Files that were not used between two calls of sweep() are closed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._directories: dict[str, _Directory] = {}
        # Those of this scrape, already compared.
        self._fresh: dict[str, _Directory] = {}
        self._numbers: dict[bytes, int] = {}

    def sweep(self) -> None:
        for path in list(self._directories):
            if path not in self._fresh:
                self._drop(path)
        self._fresh = {}

    def close(self) -> None:
        for path in list(self._directories):
            self._drop(path)
        self._fresh = {}

    def read(self, path: str) -> str | None:
        """Return the text of a file, None if there is none."""
        parent, _slash, name = path.rpartition("/")
        try:
            directory = self._directory(parent)
            if name not in _UNCHANGING:
                return self._text(directory, parent, name)
            if name not in directory.unchanging:
                directory.unchanging[name] = self._text_or_none(directory, parent, name)
            return directory.unchanging[name]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise SysfsError("Could not read %s: %s" % (path, exc.strerror)) from exc

    def _text_or_none(self, directory: _Directory, path: str, name: str) -> str | None:
        try:
            return self._text(directory, path, name)
        except FileNotFoundError:
            return None

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        directory = self._directory(path)
        if directory.names is None:
            directory.names = sorted(os.listdir(path))
        return directory.names

    def attributes(self, path: str) -> list[tuple[str, str | OSError]]:
        """Return the files of a directory, sorted by name, each with its text or error."""
        names = self.names(path)
        return list(self._texts(self._directory(path), path, names))

    def numbers(self, path: str) -> tuple[dict[str, int], list[tuple[str, str | OSError]]]:
        """Return the numbers in a directory's open files, and the other files as attributes() does.

        Nearly all files of a scrape are counters, so this is its inner loop.
        """
        names = self.names(path)
        directory = self._directory(path)
        handles, pread, numbers = directory.handles, os.pread, self._numbers
        values: dict[str, int] = {}
        others = []
        for name in names:
            try:
                data = pread(handles[name], _NUMBER, 0)
            except (KeyError, OSError):  # not open, or it has outlived its device
                others.append(name)
                continue
            value = numbers.get(data)
            if value is None:
                if not (data[:-1].isdigit() and data.endswith(b"\n")):
                    others.append(name)
                    continue
                if len(numbers) >= _MOST_NUMBERS:
                    numbers.clear()
                value = numbers[data] = int(data)
            values[name] = value
        return values, list(self._texts(directory, path, others))

    def _texts(self, directory: _Directory, path: str, names: t.Iterable[str]) -> t.Iterator[tuple[str, str | OSError]]:
        for name in names:
            try:
                yield name, self._text(directory, path, name)
            except FileNotFoundError:
                continue  # it has just been removed
            except OSError as exc:
                yield name, exc

    def once(self, path: str, compute: t.Callable[[], t.Any]) -> t.Any:
        """Return the result of ``compute`` for a directory, cached as long as it is the same directory."""
        directory = self._directory(path)
        if directory.known is None:
            directory.known = compute()
        return directory.known

    def _directory(self, path: str) -> _Directory:
        directory = self._fresh.get(path)
        if directory is None:
            status = os.stat(path)
            signature = (status.st_dev, status.st_ino, status.st_mtime_ns)
            directory = self._directories.get(path)
            if directory is not None and directory.signature != signature:
                self._drop(path)
                directory = None
            if directory is None:
                directory = self._directories[path] = _Directory(signature)
            self._fresh[path] = directory
        return directory

    def _text(self, directory: _Directory, path: str, name: str) -> str:
        handle = directory.handles.get(name)
        if handle is not None:
            try:
                return os.pread(handle, _PAGE, 0).decode("utf-8", "surrogateescape")
            except OSError as exc:
                if exc.errno != errno.ENODEV:
                    raise
            # A new device has the name of the one that is gone.
            del directory.handles[name]
            os.close(handle)
            self._count -= 1
        handle = os.open("%s/%s" % (path, name), os.O_RDONLY | os.O_CLOEXEC)
        keep = self._count < self._most
        try:
            return os.pread(handle, _PAGE, 0).decode("utf-8", "surrogateescape")
        finally:
            if keep:
                directory.handles[name] = handle
                self._count += 1
            else:
                os.close(handle)

    def _drop(self, path: str) -> None:
        directory = self._directories.pop(path)
        self._count -= len(directory.handles)
        directory.close()


__all__ = ("KeptFiles",)
