"""Tensors: what they are in Python, memory that is shared, errors, threads."""
import copy
import gc
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest

import cfx
import cfx.torch as torch
from cfx import _cfx

try:
    import numpy
except ImportError:
    numpy = None


class Tensors(unittest.TestCase):
    def test_to_a_device_takes_the_other_options(self):
        x = cfx.ones(2, 2, 2, 2)
        for args, kwargs in ((("cpu",), {}), ((cfx.device("cpu"),), {}), ((), {"device": "cpu"}),
                             (("cpu", None, False, True), {}), (("cpu", cfx.float64), {}),
                             (("cpu",), {"non_blocking": True, "copy": True})):
            y = x.to(*args, memory_format=cfx.channels_last, **kwargs)
            self.assertEqual(y.stride(), (8, 1, 4, 2))
            self.assertIs(y.dtype, args[1] if args[1:] and args[1] else cfx.float32)
        self.assertFalse(x.to("cpu", copy=True)._shares(x))
        with self.assertRaisesRegex(TypeError, "invalid combination of arguments"):
            x.to("cpu", nothing=1)

    def test_numbers_and_text(self):
        x = cfx.tensor([[1.0, -2.0], [3.0, 4.5]])
        self.assertEqual(repr(x), "tensor([[ 1.0000, -2.0000],\n        [ 3.0000,  4.5000]])")
        self.assertEqual((x.shape, x.dtype, x.dim()), (cfx.Size([2, 2]), cfx.float32, 2))
        self.assertEqual(cfx.relu(x).tolist(), [[1.0, 0.0], [3.0, 4.5]])
        self.assertEqual((x + 1)[0, 0].item(), 2.0)
        self.assertEqual(x[:, 1].tolist(), [-2.0, 4.5])
        x[0] = 7
        self.assertEqual(x.tolist(), [[7.0, 7.0], [3.0, 4.5]])
        self.assertEqual(cfx.ones(2, requires_grad=True).requires_grad, True)

    def test_one_tensor_is_one_object(self):
        x = cfx.ones(2, 2)
        self.assertIs(x.add_(1), x)
        x.mark = "mine"
        self.assertEqual(x.mul_(2).mark, "mine")

    def test_copies_and_pickles(self):
        for x in (cfx.arange(6).reshape(2, 3), cfx.tensor(3), cfx.empty(0, 2),
                  cfx.tensor([True, False]), cfx.ones(2, dtype=cfx.bfloat16)):
            y = pickle.loads(pickle.dumps(x))
            self.assertEqual((y.dtype, y.shape), (x.dtype, x.shape))
            self.assertTrue(bool((x == y).all()))
        for x in (cfx.float16, cfx.device("cpu"), cfx.Size([1, 2]), cfx.strided):
            self.assertEqual(pickle.loads(pickle.dumps(x)), x)
            self.assertEqual(type(copy.copy(x)), type(x))
        w = cfx.ones(2).requires_grad_()
        v = copy.deepcopy(w)
        self.assertTrue(v.requires_grad and v is not w and v.data_ptr() != w.data_ptr())

    def test_errors_are_pythons(self):
        x = cfx.ones(2, 3)
        with self.assertRaisesRegex(RuntimeError, r"mat1 and mat2 shapes cannot be multiplied"):
            x @ x
        with self.assertRaisesRegex(TypeError, r"relu\(\)"):
            cfx.relu("text")
        with self.assertRaisesRegex(IndexError, "out of (range|bounds)"):
            x[5]
        with self.assertRaisesRegex(AttributeError, "no_such_method"):
            x.no_such_method
        with self.assertRaisesRegex(AttributeError, "module 'cfx' has no attribute 'nothing'"):
            cfx.nothing
        with self.assertRaisesRegex(RuntimeError, "a Tensor with 6 elements cannot be converted"):
            x.item()

    def test_gradients(self):
        x = cfx.tensor([1.0, 2.0]).requires_grad_()
        y = x * 3
        y.register_hook(lambda g: g * 2)
        seen = []
        x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
        y.sum().backward()
        self.assertEqual((x.grad.tolist(), seen), ([6.0, 6.0], [[6.0, 6.0]]))
        with cfx.no_grad():
            self.assertFalse((x * 2).requires_grad)
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            z = x * 2
            z.register_hook(lambda g: 1 / 0)
            z.sum().backward()


class Memory(unittest.TestCase):
    def test_buffers(self):
        x = cfx.arange(6, dtype=cfx.float32).reshape(2, 3)
        view = memoryview(x)
        self.assertEqual((view.shape, view.format, view.readonly), ((2, 3), "f", False))
        view[1, 2] = 50.0
        self.assertEqual(x[1, 2].item(), 50.0)
        self.assertEqual(memoryview(x.t()).strides, (4, 12))
        data = bytearray(8)
        y = cfx.frombuffer(data, dtype=cfx.int32)
        y[1] = 258
        self.assertEqual(bytes(data), b"\0\0\0\0\2\1\0\0")
        for given, words in ((dict(count=5), "must not be greater than actual buffer length"),
                             (dict(offset=9), "offset .9 bytes. must be non-negative and no great"),
                             (dict(offset=-4), "must be non-negative"),
                             (dict(offset=2), "must be a multiple of element size"),
                             (dict(count=0), "count .0. must not be 0")):
            with self.assertRaisesRegex(ValueError, words):
                cfx.frombuffer(data, dtype=cfx.int32, **given)
        with self.assertRaisesRegex(ValueError, "both buffer length .0."):
            cfx.frombuffer(b"", dtype=cfx.int8)
        with self.assertWarnsRegex(UserWarning, "buffer is not writable"):
            self.assertEqual(cfx.frombuffer(b"ab", dtype=cfx.uint8, offset=1).tolist(), [98])
        with self.assertRaisesRegex(BufferError, "export"):
            data.append(1)

    def test_dlpack(self):
        x = cfx.arange(4)
        y = cfx.from_dlpack(x)
        y[0] = 9
        self.assertEqual(x[0].item(), 9)
        capsule = x.__dlpack__()
        cfx.from_dlpack(capsule)
        with self.assertRaises(Exception):
            cfx.from_dlpack(capsule)
        with self.assertRaises(Exception):
            cfx.from_dlpack(object())

    @unittest.skipUnless(numpy, "no numpy here")
    def test_numpy(self):
        a = numpy.arange(6.0).reshape(2, 3)
        x = cfx.from_numpy(a[:, 1:])
        x[0, 0] = -1
        self.assertEqual(a[0, 1], -1)
        self.assertEqual(x.stride(), (3, 1))
        b = x.numpy()
        b[1, 1] = 8
        self.assertEqual(a[1, 2], 8)
        self.assertEqual(cfx.from_numpy(numpy.zeros((0, 3))).shape, (0, 3))
        self.assertEqual(cfx.as_tensor(numpy.float32(2)).item(), 2.0)
        for data, dtype in (([numpy.float64(1), 2], cfx.float64), ([numpy.int32(1), 2], cfx.int64),
                            (numpy.float32(2), cfx.float32), ([[numpy.float16(1)]], cfx.float16),
                            ([numpy.int8(1), numpy.int16(2)], cfx.int16)):
            self.assertIs(cfx.tensor(data).dtype, dtype)
        with self.assertRaisesRegex(TypeError, "np.ndarray of type numpy.datetime64"):
            cfx.tensor(numpy.datetime64("2020"))
        with self.assertRaisesRegex(TypeError, "np.ndarray of type numpy.str_"):
            cfx.from_numpy(numpy.array(["a"]))
        self.assertEqual(numpy.add(cfx.ones(2), 1).tolist(), [2, 2])
        self.assertIsInstance(numpy.sin(cfx.ones(1)), cfx.Tensor)
        with self.assertRaisesRegex(ValueError, "negative"):
            cfx.from_numpy(a[::-1])
        with self.assertRaises((TypeError, ValueError)):
            cfx.from_numpy(a.astype(">f8"))

    def test_objects_do_not_pile_up(self):
        def rounds(n):
            for _ in range(n):
                x = cfx.ones(4, 4).requires_grad_()
                h = x.register_hook(lambda g: g)
                (cfx.relu(x) @ x).sum().backward()
                h.remove()
                try:
                    x @ cfx.ones(3, 3)
                except RuntimeError:
                    pass
                x.tolist(), repr(x), x[0], x.shape, memoryview(x.detach())

        rounds(100)
        gc.collect()
        before, held = len(gc.get_objects()), _cfx.memory_held()
        rounds(10000)
        gc.collect()
        self.assertLess(len(gc.get_objects()) - before, 50)
        self.assertLess(_cfx.memory_held() - held, 65536)


class Threads(unittest.TestCase):
    def test_threads_run_beside_each_other(self):
        wrong = []

        def work(n):
            x = cfx.full((64, 64), float(n))
            for _ in range(50):
                if (x @ x)[0, 0].item() != 64.0 * n * n:
                    wrong.append(n)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_a_fork_waits_for_imports_of_other_threads(self):
        code = ("import os, signal, sys, threading, cfx\n"
                "cfx.begun = threading.Event()\n"
                "cfx.__path__.append(sys.argv[1])\n"
                "t = threading.Thread(target=__import__, args=('cfx.slow',))\n"
                "t.start()\n"
                "cfx.begun.wait()\n"
                "if not os.fork():\n"
                "    signal.alarm(60)\n"
                "    import cfx.slow\n"
                "    os._exit(0 if cfx.slow.whole else 1)\n"
                "print(os.waitstatus_to_exitcode(os.wait()[1]))\n")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "slow.py"), "w", encoding="utf-8") as f:
                f.write("import cfx, time\ncfx.begun.set()\ntime.sleep(0.2)\nwhole = True\n")
            run = subprocess.run([sys.executable, "-c", code, folder], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(run.stdout, "0\n")


@unittest.skipUnless(numpy, "no numpy here")
class Numpy(unittest.TestCase):
    np = numpy

    def test_its_numbers_are_numbers(self):
        np, t = self.np, torch.arange(3.0)
        for value in (t + np.float32(2), np.float32(2) + t, t * np.int64(2), 2 ** t * np.float16(1),
                      torch.zeros(np.int64(2), np.int32(3)), torch.full((2,), np.float32(3)),
                      t.view(np.int64(3), 1), t.clamp(np.float32(1)), t[np.int64(1):np.int32(3)]):
            self.assertIsInstance(value, torch.Tensor)
        self.assertEqual((t[np.int64(1)].item(), t.sum(dim=np.int64(0)).item()), (1.0, 3.0))

    def test_its_arrays_stand_beside_tensors_and_in_indices(self):
        np, t = self.np, torch.arange(3.0)
        a = np.ones(3, np.float32)
        for value in (t + a, a + t, a / (t + 1), t @ a, t > a, t == a, a - t):
            self.assertIsInstance(value, torch.Tensor)
        self.assertEqual((t == a).tolist(), [False, True, False])
        self.assertEqual(t[np.array([0, 2])].tolist(), [0.0, 2.0])
        self.assertEqual(t[np.array([True, False, True])].tolist(), [0.0, 2.0])
        self.assertEqual((t + np.ones(3)[::-1]).tolist(), [1.0, 2.0, 3.0])
        self.assertEqual(torch.tensor([np.ones(2), np.zeros(2)]).tolist(), [[1, 1], [0, 0]])
        with self.assertRaisesRegex(TypeError, "must be Tensor, not ndarray"):
            torch.nn.functional.linear(a, t)

    def test_memory_is_shared_both_ways(self):
        np = self.np
        a = np.arange(12.0).reshape(3, 4)
        part = torch.from_numpy(a[::2, 1::2])
        part[0, 0] = 99.0
        self.assertEqual((a[0, 1], part.stride()), (99.0, (8, 2)))
        back = torch.from_dlpack(a[1:])
        back.zero_()
        self.assertEqual(a[1:].sum(), 0.0)
        t = torch.arange(6).reshape(2, 3)
        np.from_dlpack(t)[0, 0]
        np.asarray(t.t())[0, 1] = 50
        self.assertEqual(t[1, 0].item(), 50)
        for array, words in ((a[::-1], "negative"), (a.astype(">f8"), "byte order|endian"),
                             (np.array([object()]), "can't convert")):
            with self.assertRaisesRegex((ValueError, TypeError), words):
                torch.from_numpy(array)
        other = a[::-1].astype(">f8")[2]
        self.assertEqual((torch.zeros(4) + other).tolist(), [0.0, 99.0, 2.0, 3.0])
        self.assertEqual((torch.from_numpy(np.array(2.5)).shape,
                          torch.from_numpy(np.empty((0, 3))).shape), ((), (0, 3)))
        fixed = a.copy()
        fixed.flags.writeable = False
        with self.assertWarnsRegex(UserWarning, "not writable"):
            torch.from_numpy(fixed)
