"""run_file.py TESTS FILE [NAME...]: runs one file of PyTorch's tests on cfx; a line of JSON for
each test: its name, what became of it, and why."""
import importlib
import io
import json
import os
import signal
import sys
import traceback
import unittest
import warnings

SECONDS = 60  # for one test


class Result(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out
        self.buffer = False

    def _say(self, test, what, why=""):
        self.out.write(json.dumps({"test": test.id().rpartition(".")[2],
                                   "class": type(test).__name__, "result": what,
                                   "why": why}) + "\n")
        self.out.flush()

    def startTest(self, test):
        super().startTest(test)
        signal.alarm(SECONDS)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test):
        self._say(test, "pass")

    def addFailure(self, test, err):
        self._say(test, "fail", _last(err))

    def addError(self, test, err):
        self._say(test, "fail", _last(err))

    def addSkip(self, test, reason):
        self._say(test, "skip", str(reason))

    def addExpectedFailure(self, test, err):
        self._say(test, "pass")

    def addUnexpectedSuccess(self, test):
        self._say(test, "pass")  # where PyTorch itself fails

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._say(test, "fail", _last(err))


def _last(err):
    kind, value, tb = err
    where = [f for f in traceback.extract_tb(tb)][-1]
    text = str(value).strip().split("\n")
    return f"{kind.__name__}: {' | '.join(text)[:400]} [{os.path.basename(where.filename)}:" \
           f"{where.lineno} {where.name}]"


def main():
    folder, name, *names = sys.argv[1:]
    import cfx._run

    cfx._run.install()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import stand_ins

    stand_ins.install(stand_ins.version_of(folder))
    sys.path[:0] = [os.path.join(folder, os.path.dirname(name)), folder]
    name = os.path.basename(name)
    os.chdir(folder)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, lambda *a: (_ for _ in ()).throw(TimeoutError("too slow")))
    out, sys.stdout = sys.stdout, io.StringIO()
    if not os.environ.get("PEER_STDERR"):
        sys.stderr = io.StringIO()
    try:
        module = importlib.import_module(name)
    except BaseException as e:
        out.write(json.dumps({"test": "(import)", "class": "", "result": "fail",
                              "why": f"{type(e).__name__}: {e} {_place(e)}"}) + "\n")
        return
    stand_ins.Absent.importing = False
    suite = unittest.TestSuite()
    for cls in vars(module).values():
        if isinstance(cls, type) and issubclass(cls, unittest.TestCase) and \
                cls.__module__ == module.__name__:
            for test in unittest.defaultTestLoader.getTestCaseNames(cls):
                if not names or any(n in test for n in names):
                    suite.addTest(cls(test))
    suite.run(Result(out))


def _place(e):
    frames = traceback.extract_tb(e.__traceback__)
    own = [f for f in frames if "importlib" not in f.filename]
    return f"[{own[-1].filename}:{own[-1].lineno}]" if own else ""


main()
