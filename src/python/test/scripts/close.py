"""What assert_close says."""
import torch
from torch.testing import assert_close

def t(*a, **k):
    try:
        assert_close(*a, **k)
        print('ok')
    except Exception as e:
        print(type(e).__name__, e, sep='\n')
t(torch.ones(2, 3), torch.tensor([[1.0, 1, 1], [1, 2, 4]]))
t(torch.ones(2), torch.ones(3))
t(torch.ones(2), torch.ones(2).double())
t(torch.ones(2), torch.ones(2).double(), check_dtype=False)
t(1.0, 1.1)
t(1, 2)
t([torch.ones(1)], [torch.zeros(1)])
t({'a': torch.ones(1)}, {'b': torch.ones(1)})
t([1.0], [1.0, 2.0])
t(torch.tensor([1, 2]), torch.tensor([1, 3]))
t(torch.tensor(float('nan')), torch.tensor(float('nan')))
t(torch.tensor(float('nan')), torch.tensor(float('nan')), equal_nan=True)
t(torch.ones(2), torch.ones(2) * 1.01, rtol=0.1, atol=0)
t(torch.tensor(1.0), torch.tensor(2.0))
t(torch.ones(1), torch.zeros(1), msg='mine')
t('a', 'b')
t({'a': [torch.ones(2), torch.ones(1)]}, {'a': [torch.ones(2), torch.zeros(1)]})
t(torch.tensor([True]), torch.tensor([False]))
t(torch.ones(2), torch.ones(2).t())
t(torch.ones(1), [1.0])
t(None, None)
