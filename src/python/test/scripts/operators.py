"""The operators that calls in forward become in an exported graph; what is printed is PyTorch's."""
import torch

CASES = r"""
x.T x.mT x.H x.mH c.T c.H c.mH c.real c.imag x.t() x.adjoint() c.adjoint() x[0] x[:-1] x[1:]
x[:,1] x[...,0] x[None] x[x>0] x[::2] x[torch.tensor(0)] x[torch.tensor([0])] x.detach() x.clone()
x.contiguous() x.float() x.double() x.long() x.bool() x.int() x.to(torch.float64) x.to('cpu')
x.cpu() x.type(torch.float64) x.type_as(c.real) x.view_as(v.expand(2,3)) x.new_zeros(2)
x.new_tensor([1]) x.new_ones(1) x.new_full((1,),2) x.new_empty(0) torch.zeros_like(x)
torch.full((2,),1.) torch.eye(2) torch.tensor([1.]) torch.tensor(1) torch.ones(2) x.size(0)
x.shape x.dim() x.numel() x.is_contiguous() x.sum() x.mean() x.max() x.max(0) x.argmax() x.std()
x.var(1) x.norm() x.norm(dim=1) x.square() x**2 x**0.5 x*2 2*x x/2 2/x x//2 x%2 -x abs(x) x+1 1+x
x-1 1-x x@x.T x@v x.matmul(v) x.mm(x.t()) v.dot(v) torch.outer(v,v) x.addmm(x[:,:2],x) x.chunk(2)
x.split(1) x.unbind(0) torch.stack([v,v]) torch.cat([v,v]) torch.hstack([v,v]) torch.vstack([v,v])
x.flatten() x.reshape(-1) x.view(-1) x.unsqueeze(0) x.squeeze() x.expand(4,2,3) x.repeat(2,1)
x.tile(2) x.flip(0) x.roll(1) x.sort() x.topk(1) x.cumsum(0) x.tril() x.masked_fill(x>0,0)
x.clamp(min=1) x.clip(0,1) torch.where(x>0,x,0.) torch.where(x>0,x,x)
x.gather(0,torch.zeros(1,3).long()) x.index_select(0,torch.tensor([0])) x.isnan() x.isfinite()
x.all() x.any() x.eq(x) x.softmax(0) x.log_softmax(0) x.relu() torch.nn.functional.gelu(x)
torch.nn.functional.silu(x) torch.nn.functional.softplus(x) torch.nn.functional.layer_norm(x,(3,))
torch.nn.functional.linear(x,x) torch.nn.functional.embedding(torch.tensor([0]),x)
torch.nn.functional.dropout(x) torch.nn.functional.dropout(x,training=False)
torch.nn.functional.normalize(x) torch.nn.functional.cosine_similarity(x,x)
torch.nn.functional.pad(x,(1,1)) torch.nn.functional.pad(x,(1,1),'reflect')
torch.nn.functional.one_hot(torch.tensor([1]))
torch.nn.functional.cross_entropy(x,torch.tensor([0,1]))
torch.nn.functional.binary_cross_entropy_with_logits(x,x)
torch.nn.functional.unfold(x[None,None],1)
torch.nn.functional.interpolate(x[None,None],scale_factor=2.)
torch.nn.functional.interpolate(x[None,None],size=(4,4),mode='bilinear')
torch.nn.functional.max_pool2d(x[None,None],2) torch.nn.functional.avg_pool2d(x[None,None],2)
torch.nn.functional.adaptive_avg_pool2d(x[None,None],1) torch.nn.functional.group_norm(x[None],2)
torch.nn.functional.instance_norm(x[None])
torch.nn.functional.batch_norm(x,None,None,training=True)
torch.nn.functional.scaled_dot_product_attention(x[None],x[None],x[None])
torch.einsum('ij,kj->ik',x,x) torch.einsum('ij->i',x) torch.einsum('ii->i',x@x.T)
torch.einsum('bij,bjk->bik',x[None],x.T[None]) torch.tensordot(x,x.T,1)
torch.bmm(x[None],x.T[None]) torch.baddbmm(x[:,:2][None],x[None],x.T[None]) torch.linalg.norm(x)
torch.linalg.vector_norm(x) torch.linalg.inv(torch.eye(2)) torch.linalg.svd(x) torch.linalg.qr(x)
torch.linalg.solve(torch.eye(2),x) torch.linalg.det(torch.eye(2)) torch.linspace(0,1,3)
torch.logspace(0,1,3) torch.arange(3) torch.rand(2) torch.randn(2) torch.randint(3,(2,))
torch.randperm(3) torch.bernoulli(x/9) torch.multinomial(v+1,1) torch.normal(x,1.) x.normal_()
x.uniform_() x.fill_(1) x.zero_() x.copy_(x) x.add_(1) x.mul_(2) x.sum().item()
torch.meshgrid(v,v,indexing='ij') torch.cdist(x,x) torch.logsumexp(x,0) torch.std_mean(x)
torch.var_mean(x) torch.histc(x) torch.nonzero(x) torch.argsort(x) torch.searchsorted(v,v)
torch.bucketize(v,v) torch.quantile(x,.5) torch.median(x) torch.mode(x) torch.kron(x,x)
torch.trace(x) torch.diag(v) torch.diagonal(x) torch.diff(x) torch.lerp(x,x,.5)
torch.addcmul(x,x,x) torch.fft.fft(x) torch.fft.rfft(x) torch.complex(x,x) torch.polar(x,x)
torch.view_as_real(c) c.abs() c.angle() x.sigmoid() x.tanh() x.exp() x.log1p() x.erf() x.sign()
x.round() x.round(decimals=1) x.trunc() x.frac() x.logical_not() x>0 x.byte()&1 x.requires_grad_()
torch.relu_(x.detach()) torch.isin(x,x) torch.nan_to_num(x) torch.count_nonzero(x)
torch.atleast_3d(x) torch.block_diag(x,x) torch.cartesian_prod(v,v) torch.movedim(x,0,1)
torch.swapaxes(x,0,1) torch.ravel(x) torch.squeeze(x,(0,1)) torch.take(x,torch.tensor([0]))
torch.take_along_dim(x,torch.zeros(1,3).long(),0) torch.scatter(x,0,torch.zeros(1,3).long(),1.)
torch.scatter_add(x,0,torch.zeros(1,3).long(),x)
torch.scatter_reduce(x,0,torch.zeros(1,3).long(),x,'sum') torch.masked_select(x,x>0)
torch.renorm(x,2,0,1.) torch.triu_indices(2,2) torch.vander(v) torch.heaviside(x,x)
torch.hypot(x,x) torch.xlogy(x,x) torch.special.entr(x) torch.special.expit(x) torch.clone(x)
torch.nn.functional.glu(x[:,:2]) torch.nn.functional.hardtanh(x) torch.nn.functional.leaky_relu(x)
torch.nn.functional.relu6(x) torch.nn.functional.elu(x) torch.nn.functional.prelu(x,x[0,:1])
torch.nn.functional.threshold(x,0,0) torch.nn.functional.logsigmoid(x)
torch.nn.functional.hardswish(x) torch.nn.functional.mish(x)
torch.nn.functional.conv1d(x[None],x[None]) torch.nn.functional.conv2d(x[None,None],x[None,None])
torch.nn.functional.conv_transpose2d(x[None,None],x[None,None])
torch.nn.functional.pixel_shuffle(x.reshape(1,6,1,1)[:,:4],2)
torch.nn.functional.affine_grid(torch.zeros(1,2,3),(1,1,2,2)) torch.nn.functional.rms_norm(x,(3,))
"""


class Model(torch.nn.Module):
    def __init__(self, text):
        super().__init__()
        self.f = eval("lambda x, c, v: " + text)

    def forward(self, x, c, v):
        return self.f(x, c, v)


for text in CASES.split():
    x = torch.arange(6.).reshape(2, 3)
    program = torch.export.export(Model(text), (x, torch.complex(x, x), x[0].clone()))
    print("#", text)
    for n in program.graph.nodes:
        if n.op not in ("placeholder", "output"):
            print("  ", n.name, n.target, n.args, n.kwargs)
