"""torch.export.pt2_archive._package: archives, record by record and as a whole."""
import dataclasses
import glob
import io
import os
import struct
import tempfile
import typing
import zipfile

import cfx
from cfx import _cfx

from .. import ExportedProgram
from .constants import (AOTINDUCTOR_DIR, ARCHIVE_FORMAT_PATH, ARCHIVE_FORMAT_VALUE,
                        ARCHIVE_VERSION_PATH, ARCHIVE_VERSION_VALUE, EXECUTORCH_DIR, EXTRA_DIR,
                        MODELS_FILENAME_FORMAT)

_ALIGNMENT = 64  # of the data of a record in the file
_HEADER = 30  # the bytes of a local header before the name


def is_pt2_package(serialized_model):
    """Whether a file, or its bytes, is such an archive."""
    if isinstance(serialized_model, bytes):
        serialized_model = io.BytesIO(serialized_model)
    try:
        with zipfile.ZipFile(serialized_model) as file:
            root = file.namelist()[0].split("/")[0]
            return file.read(f"{root}/{ARCHIVE_FORMAT_PATH}") == ARCHIVE_FORMAT_VALUE.encode()
    except (OSError, KeyError, IndexError, zipfile.BadZipFile):
        return False


class PT2ArchiveWriter:
    """A context that writes an archive."""

    def __init__(self, archive_path_or_buffer):
        path = archive_path_or_buffer
        named = isinstance(path, (str, os.PathLike))
        self._root = os.path.splitext(os.path.basename(path))[0] if named else "archive"
        self.archive_file = zipfile.ZipFile(path, "w")
        self._names = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if not self.has_record(ARCHIVE_FORMAT_PATH):
            self.write_string(ARCHIVE_FORMAT_PATH, ARCHIVE_FORMAT_VALUE)
        if not self.has_record(ARCHIVE_VERSION_PATH):
            self.write_string(ARCHIVE_VERSION_PATH, ARCHIVE_VERSION_VALUE)
        self.close()

    def has_record(self, name):
        return name in self._names

    def count_prefix(self, prefix):
        return sum(name.startswith(prefix) for name in self._names)

    def write_bytes(self, name, data):
        if not isinstance(data, bytes):
            raise AssertionError(f"Expected bytes but got {type(data)}")
        if self.has_record(name):
            raise RuntimeError(f"Tried to serialize file twice: {name}")
        info = zipfile.ZipInfo(f"{self._root}/{name}")
        self.archive_file.fp.seek(self.archive_file.start_dir)
        start = self.archive_file.fp.tell() + _HEADER + len(info.filename.encode()) + 4
        padding = -start % _ALIGNMENT
        info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        self.archive_file.writestr(info, data)
        self._names.append(name)

    def write_string(self, name, data):
        if not isinstance(data, str):
            raise AssertionError(f"Expected string but got {type(data)}")
        self.write_bytes(name, data.encode())

    def write_file(self, name, file_path):
        if not os.path.isfile(file_path):
            raise AssertionError(f"{file_path} is not a valid file path")
        with open(file_path, "rb") as file:
            self.write_bytes(name, file.read())

    def write_folder(self, archive_dir, folder_dir):
        if not os.path.isdir(folder_dir):
            raise AssertionError(f"{folder_dir} is not a valid directory path")
        for path in sorted(glob.glob(f"{glob.escape(folder_dir)}/**", recursive=True)):
            if os.path.isfile(path):
                self.write_file(os.path.join(archive_dir, os.path.relpath(path, folder_dir)), path)

    def close(self):
        """Adds what PyTorch's reader of zip files asks for, and ends the file."""
        for name, data in ((".data/version", "6\n"), ("byteorder", "little")):
            if not self.has_record(name):
                self.write_string(name, data)
        self.archive_file.close()


class PT2ArchiveReader:
    """A context that reads an archive."""

    def __init__(self, archive_path_or_buffer):
        try:
            self.archive_file = zipfile.ZipFile(archive_path_or_buffer)
        except zipfile.BadZipFile as error:
            raise RuntimeError("PytorchStreamReader failed reading zip archive: not a ZIP "
                               "archive") from error
        names = self.archive_file.namelist()
        self._root = names[0].split("/")[0] + "/" if names else ""
        if not self._has(ARCHIVE_FORMAT_PATH) or \
                self.read_string(ARCHIVE_FORMAT_PATH) != ARCHIVE_FORMAT_VALUE:
            raise AssertionError("Invalid archive format")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.archive_file.close()

    def _has(self, name):
        return self._root + name in self.archive_file.NameToInfo

    def read_bytes(self, name):
        if not self._has(name):
            raise RuntimeError("PytorchStreamReader failed locating file "
                               f"{name}: file not found")
        return self.archive_file.read(self._root + name)

    def read_string(self, name):
        return self.read_bytes(name).decode()

    def archive_version(self):
        has = self._has(ARCHIVE_VERSION_PATH)
        return int(self.read_string(ARCHIVE_VERSION_PATH)) if has else 0

    def get_file_names(self):
        return [name.removeprefix(self._root) for name in self.archive_file.namelist()]


for _public in (is_pt2_package, PT2ArchiveWriter, PT2ArchiveReader):
    _public.__module__ = "torch.export.pt2_archive"


def _write_programs(writer, programs):
    """The records of the programs, as the library writes them."""
    for name, ep in programs.items():
        if not isinstance(ep, ExportedProgram):
            raise TypeError(f"the program '{name}' is a {type(ep).__name__}, not an "
                            "ExportedProgram")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "programs.pt2")
        _cfx.save_archive(path, list(programs), [ep._program for ep in programs.values()])
        with PT2ArchiveReader(path) as reader:
            for name in reader.get_file_names():
                if name.startswith(("models/", "data/")):
                    writer.write_bytes(name, reader.read_bytes(name))


def package_pt2(f, *, exported_programs=None, aoti_files=None, extra_files=None,
                opset_version=None, pickle_protocol=2, executorch_files=None):
    """Writes programs and other files to an archive."""
    if exported_programs is None and aoti_files is None and extra_files is None:
        raise AssertionError("No value passed in for `exported_programs`, `aoti_files`, and "
                             "`extra_files`, implying that you do not plan on saving anything.")
    if aoti_files is not None:
        raise NotImplementedError("cfx makes and runs no files of AOTInductor (`aoti_files`)")
    if isinstance(exported_programs, ExportedProgram):
        exported_programs = {"model": exported_programs}
    if not isinstance(exported_programs or {}, dict):
        raise AssertionError("Expected exported_programs to be a dict, but got "
                             f"{type(exported_programs)}")
    with PT2ArchiveWriter(os.fspath(f) if isinstance(f, os.PathLike) else f) as writer:
        if exported_programs:
            _write_programs(writer, exported_programs)
        for name, content in (extra_files or {}).items():
            writer.write_string(f"{EXTRA_DIR}{name}", content)
        for name, content in (executorch_files or {}).items():
            writer.write_bytes(f"{EXECUTORCH_DIR}{name}", content)
    if not isinstance(f, (str, os.PathLike)):
        f.seek(0)
    return f


@dataclasses.dataclass
class PT2ArchiveContents:
    exported_programs: typing.Dict[str, ExportedProgram]
    aoti_runners: typing.Dict[str, typing.Any]
    extra_files: typing.Dict[str, typing.Any]


def _load_programs(path, names):
    before, after = MODELS_FILENAME_FORMAT.split("{}")
    models = [name[len(before):-len(after)] for name in names
              if name.startswith(before) and name.endswith(after)]
    return {name: ExportedProgram(cfx.open(f"{path}:{name}")) for name in models}


def load_pt2(f, *, expected_opset_version=None, run_single_threaded=False, num_runners=1,
             device_index=-1, load_weights_from_disk=False):
    """The programs and other files of an archive."""
    with PT2ArchiveReader(f) as reader:
        version = reader.read_string(ARCHIVE_VERSION_PATH)
        if version != ARCHIVE_VERSION_VALUE:
            raise ValueError(f"Saved archive version {version} does not match our current archive "
                             f"version {ARCHIVE_VERSION_VALUE}.")
        names = reader.get_file_names()
        if any(name.startswith(AOTINDUCTOR_DIR) for name in names):
            raise NotImplementedError("the archive holds a model compiled by AOTInductor, which "
                                      "cfx does not run")
        extra = {name[len(EXTRA_DIR):]: reader.read_string(name) for name in names
                 if name.startswith(EXTRA_DIR)}
    if isinstance(f, (str, os.PathLike)):
        programs = _load_programs(os.fspath(f), names)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "archive.pt2")
            f.seek(0)
            with open(path, "wb") as file:
                file.write(f.read())
            programs = _load_programs(path, names)
    return PT2ArchiveContents(programs, {}, extra)
