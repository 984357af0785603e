"""The state of a module: its tensors by name, out and in."""
import collections
import copy
import itertools

import cfx

_IncompatibleKeysBase = collections.namedtuple("IncompatibleKeys",
                                               ["missing_keys", "unexpected_keys"])


class _IncompatibleKeys(_IncompatibleKeysBase):
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


_EXTRA = "_extra_state"


class StateMethods:
    """state_dict and load_state_dict."""

    def get_extra_state(self):
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be "
                           "called. Please file an issue at "
                           "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
                           "to report this bug.")

    set_extra_state = get_extra_state

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, p in self._parameters.items():
            if p is not None:
                destination[prefix + name] = p if keep_vars else p.detach()
        for name, b in self._buffers.items():
            if b is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = b if keep_vars else b.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """Name to tensor, of this module and all below."""
        if args:
            destination, prefix, keep_vars = (list(args) + [destination, prefix, keep_vars][
                len(args):])[:3]
        if destination is None:
            destination = collections.OrderedDict()
            destination._metadata = collections.OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".",
                                  keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, metadata)
            if not getattr(hook, "_from_public_api", False) and result is not None:
                destination = result
        return destination

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys,
                              unexpected_keys, error_msgs):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                 error_msgs)
        persistent = {n: b for n, b in self._buffers.items()
                      if n not in self._non_persistent_buffers_set}
        own = {n: t for n, t in itertools.chain(self._parameters.items(), persistent.items())
               if t is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                self._load_one(name, tensor, key, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA
        if type(self).set_extra_state is not StateMethods.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    first = key[len(prefix):].split(".", 1)
                    if len(first) > 1:
                        if first[0] not in self._modules:
                            unexpected_keys.append(key)
                    elif first[0] not in own and first[0] not in self._modules:
                        unexpected_keys.append(key)

    def _load_one(self, name, tensor, key, given, assign, error_msgs):
        if not isinstance(given, cfx.Tensor):
            error_msgs.append(f'While copying the parameter named "{key}", expected torch.Tensor '
                              "or Tensor-like object from checkpoint but received "
                              f"{type(given)}")
            return
        if given.shape != tensor.shape:
            error_msgs.append(f"size mismatch for {key}: copying a param with shape {given.shape} "
                              f"from checkpoint, the shape in current model is {tensor.shape}.")
            return
        try:
            with cfx.no_grad():
                if not assign:
                    tensor.copy_(given)
                    return
                from ..parameter import Parameter

                if isinstance(tensor, Parameter) and not isinstance(given, Parameter):
                    given = Parameter(given, requires_grad=tensor.requires_grad)
                setattr(self, name, given)
        except Exception as e:
            error_msgs.append(f'While copying the parameter named "{key}", whose dimensions in the '
                              f"model are {tensor.size()} and whose dimensions in the checkpoint "
                              f"are {given.size()}, an exception occurred : {e.args}.")

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies the tensors of a state dict into those of the module."""
        if not isinstance(state_dict, collections.abc.Mapping):
            raise TypeError("Expected state_dict to be dict-like, got "
                            f"{type(state_dict)}.")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state = collections.OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata

        def load(module, local, prefix=""):
            own = {} if metadata is None else copy.copy(metadata.get(prefix[:-1], {}))
            if assign:
                own["assign_to_params_buffers"] = True
            module._load_from_state_dict(local, prefix, own, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = prefix + name + "."
                    load(child, {k: v for k, v in local.items() if k.startswith(below)}, below)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError("Hooks registered with "
                                         "``register_load_state_dict_post_hook`` are notexpected "
                                         "to return new values, if incompatible_keys need to be "
                                         "modified,it should be done inplace.")

        load(self, state)
        if strict:
            if unexpected:
                names = ", ".join(f'"{k}"' for k in unexpected)
                errors.insert(0, f"Unexpected key(s) in state_dict: {names}. ")
            if missing:
                names = ", ".join(f'"{k}"' for k in missing)
                errors.insert(0, f"Missing key(s) in state_dict: {names}. ")
        if errors:
            text = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                               f"{text}")
        return _IncompatibleKeys(missing, unexpected)
