"""torch.nn on cfx: hooks of gradients, layers whose sizes come later; functions of many tensors."""
import pickle
import unittest

import cfx.torch as torch
from cfx.torch import nn


def layer():
    m = nn.Linear(2, 3)
    m.weight.data.fill_(1)
    return m


class Gradients(unittest.TestCase):
    def test_a_hook_sees_the_gradients_of_inputs_and_outputs(self):
        m, seen = layer(), []
        m.register_full_backward_pre_hook(lambda mod, out: seen.append(("pre", out[0].tolist())))
        m.register_full_backward_hook(
            lambda mod, i, o: seen.append((i[0].tolist(), o[0].tolist())))
        x = torch.ones(1, 2, requires_grad=True)
        m(x).sum().backward()
        self.assertEqual(seen, [("pre", [[1, 1, 1]]), ([[3, 3]], [[1, 1, 1]])])
        self.assertEqual(x.grad.tolist(), [[3, 3]])

    def test_what_hooks_give_takes_the_place(self):
        m = layer()
        m.register_full_backward_pre_hook(lambda mod, out: (out[0] * 10,))
        m.register_full_backward_hook(lambda mod, i, o: (i[0] + 1,))
        x = torch.ones(1, 2, requires_grad=True)
        m(x).sum().backward()
        self.assertEqual((x.grad.tolist(), m.weight.grad.tolist()), ([[31, 31]], [[10, 10]] * 3))
        m.register_full_backward_hook(lambda mod, i, o: (1, 2))
        with self.assertRaisesRegex(RuntimeError, "invalid number of grad_input"):
            m(x).sum().backward()

    def test_inputs_without_gradients_and_several_inputs(self):
        class Both(nn.Module):
            def forward(self, a, b, n):
                return a * b, a + n

        m, seen = layer(), []
        m.register_full_backward_hook(lambda mod, i, o: seen.append((i, o[0].tolist())))
        m(torch.ones(1, 2)).sum().backward()
        self.assertEqual(seen, [((None,), [[1, 1, 1]])])
        m, seen = Both(), []
        m.register_full_backward_hook(lambda mod, i, o: seen.append(
            [None if g is None else g.item() for g in (*i, *o)]))
        a, b = (torch.tensor(v, requires_grad=True) for v in (2.0, 5.0))
        sum(m(a, b, 3)).backward()
        self.assertEqual(seen, [[6, 2, None, 1, 1]])
        with torch.no_grad():
            m(a, b, 3)


class Lazy(unittest.TestCase):
    def test_sizes_come_with_the_first_input(self):
        m = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
        with self.assertRaisesRegex(ValueError, "before its first forward"):
            m[0].state_dict()
        self.assertEqual(m(torch.ones(1, 3, 4, 4)).shape, (1, 2))
        self.assertIs(type(m[3]), nn.Linear)
        self.assertEqual((m[0].in_channels, m[1].num_features, m[3].in_features), (3, 4, 16))
        self.assertEqual(len(list(m.parameters())), 6)


class Functions(unittest.TestCase):
    def test_tensors_one_by_one_with_a_keyword(self):
        x, y = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
        self.assertEqual((x.tolist(), y.tolist()), ([[0] * 3, [1] * 3], [[0, 1, 2]] * 2))
        self.assertIs(type(torch.split(x, 1)), tuple)
        self.assertEqual(torch.broadcast_shapes((2, 1), 3), torch.Size([2, 3]))

    def test_a_pickle_keeps_how_a_tensor_lies(self):
        t = torch.arange(6.0).reshape(2, 3).T
        other = pickle.loads(pickle.dumps(t))
        self.assertEqual((other.stride(), other.tolist()), (t.stride(), t.tolist()))
        part = torch.arange(8.0)[::2]
        self.assertEqual(pickle.loads(pickle.dumps(part)).tolist(), part.tolist())

    def test_generated_code_calls_assert_where_it_is(self):
        gm = torch.fx.symbolic_trace(lambda x, on: x + 1 if on else x, concrete_args={"on": True})
        self.assertIn("torch._assert(", gm.code)

    def test_new_tensor(self):
        t = torch.ones(2, dtype=torch.float64).new_tensor([1, 2])
        self.assertEqual((t.dtype, t.tolist()), (torch.float64, [1, 2]))
