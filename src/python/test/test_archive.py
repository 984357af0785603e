"""cfx.torch.export.pt2_archive: archives of several programs and other files, and their records."""
import io
import os
import tempfile
import unittest

import cfx.torch as torch
from cfx.torch.export import Dim, export
from cfx.torch.export.pt2_archive import PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package
from cfx.torch.export.pt2_archive._package import load_pt2, package_pt2


class Scaled(torch.nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(4, outputs)
        self.register_buffer("b", torch.arange(3.0))

    def forward(self, x):
        return self.linear(x) + self.b.sum()


class Archives(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "two.pt2")

    def test_programs_and_files_come_back(self):
        first = export(Scaled(3), (torch.ones(2, 4),), dynamic_shapes=({0: Dim("n")},))
        second = export(Scaled(5), (torch.ones(1, 4),))
        package_pt2(self.path, exported_programs={"a": first, "b": second},
                    extra_files={"notes.txt": "hello"}, executorch_files={"x.pte": b"123"})
        contents = load_pt2(self.path)
        self.assertEqual(sorted(contents.exported_programs), ["a", "b"])
        self.assertEqual(contents.extra_files, {"notes.txt": "hello"})
        self.assertEqual(contents.aoti_runners, {})
        x = torch.linspace(-1, 1, 12).reshape(3, 4)
        self.assertTrue(torch.equal(contents.exported_programs["a"].module()(x),
                                    first.module()(x)))
        self.assertTrue(is_pt2_package(self.path))
        with PT2ArchiveReader(self.path) as reader:
            self.assertEqual(reader.read_bytes("data/executorch/x.pte"), b"123")

    def test_one_program_in_a_buffer_is_called_model(self):
        buffer = io.BytesIO()
        package_pt2(buffer, exported_programs=export(Scaled(2), (torch.ones(1, 4),)))
        self.assertTrue(is_pt2_package(buffer.getvalue()))
        self.assertEqual(list(load_pt2(buffer).exported_programs), ["model"])
        buffer.seek(0)
        self.assertEqual(torch.export.load(buffer).module()(torch.ones(1, 4)).shape, (1, 2))

    def test_records(self):
        with PT2ArchiveWriter(self.path) as writer:
            writer.write_bytes("a/b", b"12")
            writer.write_string("s", "text")
            self.assertTrue(writer.has_record("s"))
            self.assertEqual(writer.count_prefix("a"), 1)
            with self.assertRaisesRegex(AssertionError, "Expected bytes but got <class 'str'>"):
                writer.write_bytes("q", "text")
            with self.assertRaisesRegex(RuntimeError, "twice: s"):
                writer.write_string("s", "again")
        with PT2ArchiveReader(self.path) as reader:
            self.assertEqual((reader.read_bytes("a/b"), reader.read_string("s")), (b"12", "text"))
            self.assertEqual(reader.archive_version(), 0)
            self.assertEqual(set(reader.get_file_names()) - {".data/version", "byteorder"},
                             {"a/b", "s", "archive_format", "archive_version"})
            with self.assertRaisesRegex(RuntimeError, "failed locating file nope"):
                reader.read_bytes("nope")

    def test_mistakes(self):
        with self.assertRaisesRegex(AssertionError, "No value passed in"):
            package_pt2(self.path)
        with self.assertRaisesRegex(NotImplementedError, "AOTInductor"):
            package_pt2(self.path, aoti_files=["model.so"])
        with self.assertRaisesRegex(TypeError, "the program 'a' is a Linear, not an"):
            package_pt2(self.path, exported_programs={"a": torch.nn.Linear(1, 1)})
        with open(self.path, "w") as file:
            file.write("junk")
        self.assertFalse(is_pt2_package(self.path))
        with self.assertRaisesRegex(RuntimeError, "not a ZIP archive"):
            load_pt2(self.path)


if __name__ == "__main__":
    unittest.main()
