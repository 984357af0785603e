"""FileCheck: what a text must contain, in order."""
import re


class FileCheck:
    """FileCheck().check("a").check_not("b").check("c").run(text)"""

    def __init__(self):
        self._steps = []

    def _add(self, kind, text, *more):
        self._steps.append((kind, text, *more))
        return self

    def check(self, text):
        return self._add("check", text)

    def check_not(self, text):
        return self._add("not", text)

    def check_next(self, text):
        return self._add("next", text)

    def check_same(self, text):
        return self._add("same", text)

    def check_count(self, text, count, exactly=False):
        if count == 0 and exactly:
            return self._add("not", text)
        return self._add("count", text, count, exactly)

    def check_dag(self, text):
        return self._add("dag", text)

    def check_regex(self, text):
        return self._add("regex", text)

    def check_source_highlighted(self, text):
        return self._add("check", text)

    def run(self, text):
        """A RuntimeError where the text does not fit."""
        text = str(text)
        at, barred, i = 0, [], 0
        while i < len(self._steps):
            kind, what, *more = self._steps[i]
            if kind == "not":
                barred.append(what)
                i += 1
                continue
            if kind == "dag":
                start, ends = at, []
                while i < len(self._steps) and self._steps[i][0] == "dag":
                    ends.append(self._find(text, self._steps[i][1], start)[1])
                    i += 1
                self._bar(text, barred, at, max(ends))
                at, barred = max(ends), []
                continue
            begin, end = self._step(text, kind, what, more, at)
            self._bar(text, barred, at, begin)
            at, barred = end, []
            i += 1
        self._bar(text, barred, at, len(text))
        return self

    def _step(self, text, kind, what, more, at):
        if kind == "regex":
            found = re.compile(what).search(text, at)
            if not found:
                self._missing(text, what, at)
            return found.span()
        begin, end = self._find(text, what, at)
        between = text[at:begin]
        if kind == "next" and between.count("\n") != 1:
            self._missing(text, what, at)
        if kind == "same" and "\n" in between:
            self._missing(text, what, at)
        if kind == "count":
            count, exactly = more
            for _ in range(count - 1):
                _, end = self._find(text, what, end)
            if exactly and text.find(what, end) >= 0:
                raise RuntimeError(f"Expected to not find {what!r} but found it\n{text[end:]}")
        return begin, end

    def _find(self, text, what, at):
        begin = text.find(what, at)
        if begin < 0:
            self._missing(text, what, at)
        return begin, begin + len(what)

    def _missing(self, text, what, at):
        raise RuntimeError(f"Expected to find {what!r} but did not find it\nSearched string:\n"
                           f"{text[at:]}\nFrom CHECK: {what}")

    def _bar(self, text, barred, begin, end):
        for what in barred:
            if text.find(what, begin, end) >= 0:
                raise RuntimeError(f"Expected to not find {what!r} but found it\n"
                                   f"{text[begin:end]}\nFrom CHECK-NOT: {what}")
