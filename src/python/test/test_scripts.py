"""Scripts written for PyTorch, run by `python3 -m cfx`: they print what they print there."""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts")


def run(*args, cwd=HERE):
    """(exit status, what was printed, results and errors in their order)"""
    done = subprocess.run([sys.executable, "-u", "-m", "cfx", *args], cwd=cwd, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def plain(text):
    """Without addresses and folders, and without the marks of where in a line an error is, which
    versions of Python draw in their own ways."""
    text = re.sub(r"0x[0-9a-f]+", "0x...", text)
    text = re.sub(r'File ".*/', 'File "', text)
    return re.sub(r"^ +[~^]+\n", "", text, flags=re.M)


class Scripts(unittest.TestCase):
    maxDiff = None

    def check(self, name, status=0):
        with open(os.path.join(HERE, f"{name}.out"), encoding="utf-8") as f:
            want = f.read()
        got_status, got = run(f"{name}.py")
        self.assertEqual(plain(got), plain(want))
        self.assertEqual(got_status, status)

    def test_scripts(self):
        names = sorted(f[:-3] for f in os.listdir(HERE) if f.endswith(".py"))
        self.assertGreater(len(names), 6)
        for name in names:
            with self.subTest(script=name):
                self.check(name, status=int(name == "mistake"))

    def test_notebook(self):
        path = os.path.join(HERE, *[".."] * 4, "examples", "python", "notebook")
        got = subprocess.run([sys.executable, f"{path}.py"], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT).stdout
        with open(f"{path}.out", encoding="utf-8") as f:
            self.assertEqual(got, f.read())


def own_frames(text, name):
    """What was printed, of tracebacks only the frames in the script itself (those below it are the
    library's own business), and without the warnings that PyTorch gives about its own code."""
    keep, lines = True, []
    for line in text.split("\n"):
        if line.startswith("  File "):
            keep = name in line
        elif re.match(r"\S+\.py:\d+: \w*Warning: ", line):
            keep = False
        elif not line.startswith(" "):
            keep = True
        if keep:  # of the script's own lines some versions of Python show the spaces at the end
            lines.append(line.rstrip() if line.startswith("    ") else line)
    return "\n".join(lines)


class Seeds(unittest.TestCase):
    """The scripts in seeds, and printed.txt: what they print under PyTorch 2.11."""

    maxDiff = None
    folder = os.path.join(HERE, os.pardir, "seeds")

    def test_print_what_they_print_there(self):
        with open(os.path.join(self.folder, "printed.txt"), encoding="utf-8") as f:
            parts = re.split(r"^##### (.*)\n", f.read(), flags=re.M)[1:]
        scripts = dict(zip(parts[::2], parts[1::2]))
        self.assertEqual(sorted(scripts), sorted(n for n in os.listdir(self.folder)
                                                 if n.endswith(".py")))
        for name, want in scripts.items():
            with self.subTest(name):
                with open(os.path.join(self.folder, name), encoding="utf-8") as f:
                    if "import numpy" in f.read() and importlib.util.find_spec("numpy") is None:
                        continue
                status, got = run(name, cwd=self.folder)
                plain_want, plain_got = (re.sub(" at 0x[.]{3}", "", own_frames(plain(t), name))
                                         for t in (want, got))
                self.assertEqual(plain_got, plain_want)
                self.assertEqual(status, 1 if want.startswith("Traceback") else 0)


class Command(unittest.TestCase):
    def test_code_and_modules(self):
        self.assertEqual(run("-c", "import torch, sys; print(torch.ones(2), sys.argv)", "a"),
                         (0, "tensor([1., 1.]) ['-c', 'a']\n"))
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "own.py"), "w", encoding="utf-8") as f:
                f.write("import torch\nprint(__name__, torch.__name__)\n")
            self.assertEqual(run("-m", "own", cwd=folder), (0, "__main__ torch\n"))
            self.assertEqual(run("own.py", cwd=folder), (0, "__main__ torch\n"))

    def test_what_is_not_there_is_said(self):
        status, text = run("-c", "import torch.package.importer")
        self.assertEqual(status, 1)
        self.assertIn("ModuleNotFoundError: No module named 'torch.package': cfx plays torch "
                      "here, and does not have that part of it", text)
        status, text = run("nothing.py")
        self.assertEqual((status, text), (2, "cfx: can't open file 'nothing.py': [Errno 2] No such "
                                             "file or directory\n"))
        self.assertEqual(run("--bad")[0], 2)
        status, text = run("-c", "import torch; torch.nothing_like_it")
        self.assertIn("AttributeError: module 'torch' has no attribute 'nothing_like_it'", text)

    def test_exit_status(self):
        self.assertEqual(run("-c", "import sys; sys.exit(7)"), (7, ""))
