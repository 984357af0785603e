"""run.py FOLDER [NAME...]: the tests of the package in a folder; "N passed, M failed" last."""
import os
import sys
import unittest


class Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"{test.id()}: not run: {reason}")


def main():
    folder = os.path.abspath(sys.argv[1])
    sys.path.insert(0, folder)
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{n}*" for n in sys.argv[2:]] or None
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=0, stream=sys.stdout)
    result = runner.run(loader.discover(folder, pattern="test_*.py"))
    failed = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
