"""cfx.torch.fx.passes and experimental: searching for what a backend computes otherwise, and for
what differs between examples."""
import contextlib
import io
import unittest

import cfx.torch as torch
from cfx.torch.fx.experimental._dynamism import track_dynamism_across_examples
from cfx.torch.fx.passes.net_min_base import (FxNetMinimizerRunFuncError, _MinimizerBase,
                                              _MinimizerSettingBase)


def called(mod):
    return {n.name for n in mod.graph.nodes if n.op in ("call_module", "call_function")}


class Wrong(_MinimizerBase):
    """run_b computes what is called so otherwise."""

    bad = {"relu"}

    def run_a(self, mod, inputs, report_idx=-1):
        return mod(*inputs)

    def run_b(self, mod, inputs, report_idx=-1):
        out = mod(*inputs)
        return out + 1 if self.bad <= called(mod) else out


class Minimizer(unittest.TestCase):
    def setUp(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

            def forward(self, x):
                return torch.sin(torch.relu(self.second(self.first(x))))

        self.traced = torch.fx.symbolic_trace(Model())

    def culprits(self, method, bad, **options):
        settings = _MinimizerSettingBase(traverse_method=method, **options)
        minimizer = Wrong(self.traced, (torch.ones(2, 4),),
                          lambda a, b, names: (0, torch.equal(a, b)), settings)
        minimizer.bad = set(bad)
        with contextlib.redirect_stdout(io.StringIO()):
            return {n.name for n in minimizer.minimize()}, minimizer

    def test_each_way_finds_the_node(self):
        for method in ("sequential", "binary", "block", "accumulate"):
            for bad in ("first", "second", "relu", "sin"):
                self.assertEqual(self.culprits(method, [bad])[0], {bad}, method)
            self.assertEqual(self.culprits(method, ["nothing"])[0], set())

    def test_nodes_that_differ_together_are_found_as_a_block(self):
        self.assertEqual(self.culprits("block", ["second", "relu"])[0], {"second", "relu"})
        self.assertEqual(self.culprits("sequential", ["second", "relu"])[0], set())

    def test_all_are_found_where_that_is_asked_for(self):
        class Both(Wrong):
            def run_b(self, mod, inputs, report_idx=-1):
                out = mod(*inputs)
                return out + 1 if {"relu", "first"} & called(mod) else out

        settings = _MinimizerSettingBase(traverse_method="sequential", find_all=True)
        minimizer = Both(self.traced, (torch.ones(2, 4),),
                         lambda a, b, names: (0, torch.equal(a, b)), settings)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual({n.name for n in minimizer.minimize()}, {"first", "relu"})
            minimizer.print_reports()
        self.assertIn("FxNetMinimizerResultMismatchError", out.getvalue())

    def test_a_run_that_fails_is_told(self):
        class Failing(Wrong):
            def run_b(self, mod, inputs, report_idx=-1):
                raise ValueError("no such kernel")

        minimizer = Failing(self.traced, (torch.ones(2, 4),), lambda a, b, names: (0, True),
                            _MinimizerSettingBase(traverse_method="nowhere"))
        split, name = minimizer._build_submodule(list(self.traced.graph.nodes)[1:2])
        with self.assertRaisesRegex(FxNetMinimizerRunFuncError, "no such kernel"):
            minimizer._run_and_compare(split, name, [])
        with self.assertRaisesRegex(RuntimeError, "Unknown traverse method nowhere!"), \
                contextlib.redirect_stdout(io.StringIO()):
            minimizer.minimize()
        with self.assertRaisesRegex(ValueError, "no node is called 'none'"), \
                contextlib.redirect_stdout(io.StringIO()):
            minimizer.minimize(start="none")


class Dynamism(unittest.TestCase):
    def test_sizes_and_numbers_that_differ_vary(self):
        examples = [{"a": torch.ones(n, 2), "b": [torch.ones(n), n], "c": {"d": 42}}
                    for n in (1, 2, 3)]
        self.assertEqual(track_dynamism_across_examples(examples), {
            "a": {"L['a']": (True, False)},
            "b": {"L['b'][0]": (True,), "L['b'][1]": (True,)},
            "c": {"L['c']['d']": (False,)}})

    def test_modules_are_told_by_their_attributes(self):
        found = track_dynamism_across_examples(
            [{"self": torch.nn.Sequential(torch.nn.Linear(n, 4))} for n in (2, 3)])["self"]
        self.assertEqual(found["L['self']['_modules']['0']['weight']"], (False, True))
        self.assertEqual(found["L['self']['_modules']['0']['in_features']"], (True,))
